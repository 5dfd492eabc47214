"""Why a cell takes as long as it does: its dispatches and nn.Modules beside eager, inductor and the machine's limit."""
