"""Official result trees. This room alone knows MLCommons' folder and file names."""
