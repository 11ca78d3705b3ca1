"""The results of a folder as a site of static pages."""
