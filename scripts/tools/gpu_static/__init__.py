"""What the compiler's output says about how a program would run on a GPU, without one: registers, spills, occupancy, matrix
units, and a lower bound of its time."""
