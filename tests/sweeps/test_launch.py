"""What a worker is started with."""

import platform

import pytest

from sweeps.engine import launch


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have allocators of their own")
def test_a_workers_thread_uses_again_what_it_has_freed(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each update would have its tensors mapped anew, page by page."""
    import ray

    def new_pages() -> list[int]:
        """Page faults of each of twenty times that a thread fills a tensor and drops it."""
        import resource
        from threading import Thread

        import torch

        counts = []

        def fill() -> None:
            for _ in range(20):
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                torch.ones(2**24)
                counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

        thread = Thread(target=fill)
        thread.start()
        thread.join()
        return counts

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with launch.cluster(cluster):
        counts = ray.get(ray.remote(new_pages).remote())
    assert max(counts[-5:]) < counts[0] / 10  # the heap grows for some of the first ones
