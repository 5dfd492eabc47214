"""results/report.html: the results as one page that needs no network and no server."""
