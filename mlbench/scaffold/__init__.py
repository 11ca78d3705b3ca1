"""The beginning of a plugin: a package that installs, runs and passes the conformance kit."""
