"""Generated gRPC stubs (the build writes them here from proto/). Nothing else may live in this folder."""
