"""The official checker's demands on a whole tree, each finding with what that checker itself says of it."""
