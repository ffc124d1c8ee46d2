# Copyright The nccl-profiler-otf2 developers
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)
#
# A recipe for Spack 1.0 and later. Nothing is published yet, so it builds a source tree:
#
#     spack repo create nccl-otf2-repo nccl_otf2       # once; copy this file to packages/nccl_profiler_otf2/ in it
#     spack repo add nccl-otf2-repo/spack_repo/nccl_otf2
#     spack develop --path SOURCES nccl-profiler-otf2@=0.1.0      # in an environment
#     spack install
#
# test_package.py checks this file with Spack's names stubbed. It has not been run by Spack itself.

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


# A CargoPackage would install no shared library.
class NcclProfilerOtf2(CMakePackage):
    """Profiler plugin of NCCL that writes OTF2 traces, and nccl-otf2, the tool that records and reads them."""

    license("Apache-2.0 OR MIT")

    # `spack develop` needs no checksum.
    version("0.1.0")

    variant("plain_link", default=False, description="Record every job on this library path, without any variable")

    depends_on("c", type="build")
    depends_on("cmake@3.20:", type="build")
    depends_on("rust@1.95:", type="build")
    # Linked statically: a job under Score-P has another libotf2. otf2-print is for tests.
    depends_on("otf2@3.0:", type=("build", "test"))
    depends_on("pkgconfig", type="test")

    root_cmakelists_dir = "cmake"

    def cmake_args(self):
        return [
            self.define("OTF2_DIR", self.spec["otf2"].prefix),
            self.define("BUILD_TESTING", self.run_tests),
            self.define_from_variant("NCCL_OTF2_PLAIN_LINK", "plain_link"),
        ]

    def setup_build_environment(self, env):
        # cargo keeps what it fetches in the user's home otherwise.
        env.set("CARGO_HOME", join_path(self.stage.path, "cargo"))

    # Loading the package records nothing: NCCL_PROFILER_PLUGIN stays as it is.
    def setup_run_environment(self, env):
        env.prepend_path("LD_LIBRARY_PATH", self.prefix.lib)
