"""Published results of MLPerf Inference, as data; README.md says where they come from."""
