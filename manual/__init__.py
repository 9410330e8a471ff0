"""What the documentation has beside its pages: manual pages, a reference made from the code, reports of real runs."""
