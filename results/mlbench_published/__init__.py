"""Published results of MLPerf Inference v4.1, as data; README.md says where they come from."""
