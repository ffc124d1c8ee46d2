//! Debian packages: what each command needs, whether it is present, and its installation if allowed.
//!
//! The check looks for the thing itself, not for its package: on a cluster, OTF2 may come from a module.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::error::missing;
use crate::process::{find, heading, run, succeeds};

pub(crate) struct Need {
    package: &'static str,
    what: &'static str,
    is_here: fn() -> bool,
}

const fn need(package: &'static str, what: &'static str, is_here: fn() -> bool) -> Need {
    Need { package, what, is_here }
}

/// OTF2's headers and libraries, from a package or from `OTF2_DIR` or `OTF2_CONFIG`.
pub(crate) const OTF2: Need = need("libotf2-trace-dev", "OTF2 for building (otf2-config on PATH, or OTF2_DIR)", || {
    ["OTF2_DIR", "OTF2_CONFIG"].iter().any(|v| std::env::var_os(v).is_some()) || on_path("otf2-config")
});
pub(crate) const OTF2_TOOLS: Need = need("otf2-tools", "otf2-print", || on_path("otf2-print"));
/// Python with `venv` and pip's wheel (`ensurepip`, which Debian packages separately).
pub(crate) const PYTHON: Need = need("python3-venv", "Python 3 with venv", || {
    succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"]))
});
pub(crate) const COMPILER: Need = need("build-essential", "a C compiler and make", || on_path("cc") && on_path("make"));
/// `libclang.so`, which bindgen loads to read headers.
pub(crate) const LIBCLANG: Need = need("libclang-dev", "libclang (or LIBCLANG_PATH)", libclang_is_here);
pub(crate) const CMAKE: Need = need("cmake", "cmake", || on_path("cmake"));
pub(crate) const XZ: Need = need("xz-utils", "xz", || on_path("xz"));
pub(crate) const VALGRIND: Need = need("valgrind", "valgrind", || on_path("valgrind"));
/// The dynamic linker's symbols, without which Valgrind does not start on Debian.
pub(crate) const LIBC_SYMBOLS: Need =
    need("libc6-dbg", "libc's debug symbols (for valgrind)", || !on_path("dpkg") || installed("libc6-dbg"));
pub(crate) const STRACE: Need = need("strace", "strace", || on_path("strace"));
pub(crate) const BINUTILS: Need = need("binutils", "nm and readelf", || on_path("nm") && on_path("readelf"));
/// Node and npm check and test the script of the report's page; Chromium displays it.
pub(crate) const NODE: Need = need("nodejs", "node (18.18 or later)", || on_path("node"));
pub(crate) const NPM: Need = need("npm", "npm", || on_path("npm"));
pub(crate) const CHROMIUM: Need =
    need("chromium", "chromium (or CHROMIUM)", || std::env::var_os("CHROMIUM").is_some() || on_path("chromium"));
pub(crate) const JAVA: Need = need("openjdk-17-jre-headless", "Java 17", || on_path("java"));
/// Scrapes metrics; its `promtool` checks them.
pub(crate) const PROMETHEUS: Need =
    need("prometheus", "prometheus and promtool", || on_path("prometheus") && on_path("promtool"));

/// What tests of installations and packages use; rpmbuild makes the rpm.
pub(crate) const OF_PACKAGES: &[Need] = &[
    need("cpio", "cpio", || on_path("cpio")),
    need("debootstrap", "debootstrap", || on_path("debootstrap")),
    need("fish", "fish", || on_path("fish")),
    need("groff-base", "groff", || on_path("groff")),
    need("lintian", "lintian", || on_path("lintian")),
    need("lmod", "Lmod", || installed("lmod")),
    need("man-db", "man", || on_path("man")),
    need("pkg-config", "pkg-config", || on_path("pkg-config")),
    need("rpm", "rpmbuild", || on_path("rpmbuild")),
    need("rpm2cpio", "rpm2cpio", || on_path("rpm2cpio")),
    need("zsh", "zsh", || on_path("zsh")),
];

/// Ensures that all `needs` are present: installs missing ones as root on Debian, else fails with the right command.
pub(crate) fn ensure(needs: &[Need]) -> Result<()> {
    heading("packages");
    let lacking = lacking(needs);
    if lacking.is_empty() {
        println!("   everything needed is installed");
        return Ok(());
    }
    let packages: Vec<&str> = lacking.iter().map(|need| need.package).collect();
    if !on_path("apt-get") {
        let line = |need: &&Need| format!("\n  {} (on Debian: {})", need.what, need.package);
        return Err(missing(format!("this machine lacks:{}", lacking.iter().map(line).collect::<String>())));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(missing(format!(
            "packages are missing; install them and try again:\n  sudo apt-get update && sudo apt-get install -y \
             --no-install-recommends {}",
            packages.join(" ")
        )));
    }
    println!("   installing {}", packages.join(" "));
    run(&mut apt(&["update", "-q"]))?;
    run(apt(&["install", "-yq", "--no-install-recommends"]).args(&packages))?;
    let still: Vec<&str> = self::lacking(needs).iter().map(|need| need.what).collect();
    ensure!(still.is_empty(), "apt-get succeeded, but this machine still lacks: {}", still.join(", "));
    Ok(())
}

fn lacking(needs: &[Need]) -> Vec<&Need> {
    needs.iter().filter(|need| !(need.is_here)()).collect()
}

fn apt(words: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    // Wait if another apt is running (a fresh cloud machine updates itself).
    command.args(["-o", "DPkg::Lock::Timeout=300"]).args(words).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn on_path(name: &str) -> bool {
    find(name).is_some()
}

fn installed(package: &str) -> bool {
    succeeds(Command::new("dpkg").args(["-s", package]))
}

fn libclang_is_here() -> bool {
    let folders = ["/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    std::env::var_os("LIBCLANG_PATH").is_some()
        || installed("libclang-dev")
        || folders.iter().any(|folder| Path::new(folder).join("libclang.so").exists())
}
