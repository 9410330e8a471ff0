"""Generated documentation: manual pages, a reference made from the code, reports of real runs."""
