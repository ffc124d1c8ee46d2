//! `cargo xtask dist`: all that is published, made of one build.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cache::{self, Cache};
use crate::cargo;
use crate::packages::{self, CMAKE, COMPILER, PYTHON, XZ};
use crate::process::{self, heading};
use crate::python::Python;

/// Build for glibc 2.28 and pack: wheel, tarballs, deb, rpm, list of components, checksums
///
/// They are in target/packages, the build tree is target/cmake, and what is installed from it, target/dist-prefix. The
/// compiler is zig's, from the Python package index. aarch64 is built in the same way on such a machine: nobody has
/// tried it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// OTF2's release (otf2-VERSION.tar.gz), instead of Debian's source package
    #[arg(long, value_name = "TARBALL")]
    otf2: Option<PathBuf>,
    /// Only build, and install into target/dist-prefix
    #[arg(long)]
    build_only: bool,
}

/// The oldest C library that the files run with, as docs/DESIGN.md promises.
const GLIBC: &str = "2.28";
/// The version of OTF2 that is linked in.
const OTF2: &str = include_str!("../../../packaging/portable/OTF2_VERSION");
/// The most that a file may have; the source tarball has all crates.
const MOST_BYTES: u64 = 12_000_000;

pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(&[CMAKE, COMPILER, PYTHON, XZ])?;
    let target = cargo::target()?;
    let (python, otf2) = {
        let cache = Cache::open()?;
        let python = Python::ensure_dist(&cache)?;
        let otf2 = otf2(&cache, &python, args.otf2.as_deref())?;
        (python, otf2)
    };

    heading("build");
    let tree = target.join("cmake");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(cargo::root().join("cmake")).arg("-B").arg(&tree);
    configure.arg(format!("-DOTF2_DIR={}", otf2.display())).arg(format!("-DNCCL_OTF2_GLIBC={GLIBC}"));
    configure.arg(format!("-DNCCL_OTF2_CARGO_TARGET_DIR={}", target.display()));
    configure.arg(format!("-DCARGO_ZIGBUILD_EXECUTABLE={}", python.program("cargo-zigbuild").display()));
    // Without the names that are loaded without a variable.
    process::run(configure.args(["-DCMAKE_INSTALL_LIBDIR=lib", "-DNCCL_OTF2_PLAIN_LINK=OFF"]))?;
    process::run(Command::new("cmake").arg("--build").arg(&tree))?;
    let name = format!("nccl-otf2-{}", env!("CARGO_PKG_VERSION"));
    let machine = std::env::consts::ARCH;
    let prefix = target.join("dist-prefix").join(format!("{name}-linux-{machine}"));
    cache::remove(&target.join("dist-prefix"))?;
    process::run(Command::new("cmake").arg("--install").arg(&tree).arg("--prefix").arg(&prefix))?;
    if args.build_only {
        return Ok(());
    }

    let out = target.join("packages");
    cache::remove(&out)?;
    cache::create(&out)?;
    let packing = Packing { time: time()?, out: &out };
    let mut git = Command::new("git");
    git.args(["status", "--porcelain", "--untracked-files=no"]).current_dir(cargo::root());
    if !process::output(&mut git, "the state of the working tree")?.is_empty() {
        println!(
            "   note: the source tarball is of the last commit, without the uncommitted changes in these \
            binaries"
        );
    }
    heading("pack");
    process::run(packing.pack("notices").args([&otf2, &prefix]))?;
    process::run(packing.pack("binaries").arg(&prefix).arg(out.join(format!("{name}-linux-{machine}.tar.xz"))))?;
    packing.wheel(&python, &prefix)?;
    packing.system_packages(&prefix)?;
    process::run(packing.pack("components").arg(env!("CARGO_PKG_VERSION")).arg(out.join(format!("{name}.cdx.json"))))?;
    for file in cache::list(&out)? {
        let bytes = file.metadata().with_context(|| format!("look at {}", file.display()))?.len();
        ensure!(bytes <= MOST_BYTES, "{} has {bytes} bytes, more than {MOST_BYTES}", file.display());
    }
    process::run(packing.pack("source").arg(format!("{name}-source")).arg(out.join(format!("{name}-source.tar.xz"))))?;
    process::run(packing.pack("sums").arg(&out))
}

/// A static libotf2 for old systems, built once.
fn otf2(cache: &Cache, python: &Python, tarball: Option<&Path>) -> Result<PathBuf> {
    heading("OTF2");
    // Another name for another build.
    let prefix = cache.folder(&format!("otf2-{}-sections-glibc-{GLIBC}", OTF2.trim_ascii_end()));
    if !prefix.is_dir() {
        let scratch = cache.scratch()?;
        let mut build = Command::new("bash");
        build.arg(cargo::root().join("packaging/portable/otf2.sh")).arg(&prefix).args(tarball);
        build.env("DESTDIR", scratch.path()).env("ZIG", python.program("python-zig")).env("GLIBC", GLIBC);
        process::run(&mut build)?;
        let built = scratch.path().join(prefix.strip_prefix("/").unwrap_or(&prefix));
        cache::put(&built, &prefix)?;
    }
    println!("   {}", prefix.display());
    Ok(prefix)
}

/// The commit's time, which packed files have.
fn time() -> Result<String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(cargo::root());
    Ok(process::output(&mut git, "the commit's time")?.trim().to_owned())
}

struct Packing<'a> {
    time: String,
    out: &'a Path,
}

impl Packing<'_> {
    fn pack(&self, what: &str) -> Command {
        let mut command = Command::new("python3");
        command.arg("-B").arg(cargo::root().join("packaging/pack.py")).arg(what);
        command.env("SOURCE_DATE_EPOCH", &self.time);
        command
    }

    fn wheel(&self, python: &Python, prefix: &Path) -> Result<()> {
        let platform = format!("manylinux_{}_{}", GLIBC.replace('.', "_"), std::env::consts::ARCH);
        let mut build = Command::new(python.program("hatchling"));
        build.args(["build", "--target", "wheel", "--directory"]).arg(self.out);
        build.current_dir(cargo::root().join("packaging/python")).env("SOURCE_DATE_EPOCH", &self.time);
        process::run(build.env("NCCL_OTF2_PREFIX", prefix).env("NCCL_OTF2_PLATFORM", &platform))?;
        let name = format!("nccl_otf2-{}-py3-none-{platform}.whl", env!("CARGO_PKG_VERSION"));
        let wheel = self.out.join(&name);
        let found = process::output(Command::new(python.program("auditwheel")).arg("show").arg(&wheel), "auditwheel")?;
        // It says so of the symbols, not of the name: "consistent with the following platform tag".
        ensure!(found.replace('\n', " ").contains(&format!("tag: \"{platform}\"")), "{platform}: {found}");
        println!("   auditwheel: {name} is {platform}");
        Ok(())
    }

    /// deb and rpm, of the files in `prefix`.
    fn system_packages(&self, prefix: &Path) -> Result<()> {
        let script = cargo::root().join("packaging/system-packages.sh");
        if !script.exists() {
            return Ok(());
        }
        process::run(Command::new(script).args([prefix, self.out]).env("SOURCE_DATE_EPOCH", &self.time))
    }
}
