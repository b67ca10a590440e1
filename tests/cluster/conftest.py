"""One installation for the tests of the owners, on the session's Postgres and Ray."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cluster import ClusterInfo
from store.server import DatabaseUrls
from tests.cluster.installation import Installation, Study, installed
from tests.cluster.product import Product


@pytest.fixture(scope="session")
def place(
    ray_cluster: ClusterInfo, postgres_urls: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """An installation whose actors are ended with the session."""
    assert ray_cluster.address
    with installed(postgres_urls, tmp_path_factory.mktemp("artifacts")) as made:
        yield made


@pytest.fixture
def study(place: Installation) -> Study:
    """A Run in a namespace of its own."""
    return Study(place)


@pytest.fixture
def product(place: Installation, ray_cluster: ClusterInfo, open_path: Path) -> Product:
    """The command line over the session's installation, in a home of its own."""
    return Product(place, ray_cluster, open_path / "h")
