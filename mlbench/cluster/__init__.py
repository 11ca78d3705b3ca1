"""The network division: nodes that serve samples over sockets, and the engine that reaches them."""
