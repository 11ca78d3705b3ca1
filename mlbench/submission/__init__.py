"""Official result trees. Only this package knows MLCommons' folder and file names."""
