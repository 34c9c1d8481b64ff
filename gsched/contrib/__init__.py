"""gsched behind the interfaces of other packages, on gsched.api (docs/python.md#other-packages).

Start with `joblib_backend`; dask_cluster and hydra_launcher are alike. Each imports the package that it is for, which
its user has. `drmaa` stands in place of its package, and imports none. Nothing else of gsched may import them.
"""
