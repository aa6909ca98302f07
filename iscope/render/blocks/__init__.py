"""Report -> texts and tables without markup, which the HTML page and the Markdown page share."""
