//! Debian packages: what each command needs, whether it is there, and installing it where that is allowed.
//!
//! Whether something is there is found out by looking for the thing itself, not for the package: on a cluster OTF2
//! comes from a module, and that is fine.

use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::process::{find, run, succeeds};
use crate::report;

/// One thing that must be on the machine, and the Debian package that has it.
pub(crate) struct Need {
    package: &'static str,
    what: &'static str,
    is_here: fn() -> bool,
}

/// OTF2's headers and libraries, from a package or from where `OTF2_DIR` or `OTF2_CONFIG` points.
pub(crate) const OTF2: Need = Need {
    package: "libotf2-trace-dev",
    what: "OTF2 for building (otf2-config on PATH, or OTF2_DIR)",
    is_here: || {
        ["OTF2_DIR", "OTF2_CONFIG"]
            .iter()
            .any(|v| std::env::var_os(v).is_some())
            || on_path("otf2-config")
    },
};
/// `otf2-print`.
pub(crate) const OTF2_TOOLS: Need = Need {
    package: "otf2-tools",
    what: "otf2-print",
    is_here: || on_path("otf2-print"),
};
/// Python with `venv` and pip's wheel (`ensurepip`, which Debian splits off).
pub(crate) const PYTHON: Need = Need {
    package: "python3-venv",
    what: "Python 3 with venv",
    is_here: || succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])),
};
/// A C compiler, its headers and `make`.
pub(crate) const COMPILER: Need = Need {
    package: "build-essential",
    what: "a C compiler and make",
    is_here: || on_path("cc") && on_path("make"),
};
/// `libclang.so`, which bindgen loads to read headers.
pub(crate) const LIBCLANG: Need = Need {
    package: "libclang-dev",
    what: "libclang (or LIBCLANG_PATH)",
    is_here: libclang_is_here,
};
/// CMake with `ctest`.
pub(crate) const CMAKE: Need = Need {
    package: "cmake",
    what: "cmake",
    is_here: || on_path("cmake"),
};
/// Valgrind.
pub(crate) const VALGRIND: Need = Need {
    package: "valgrind",
    what: "valgrind",
    is_here: || on_path("valgrind"),
};
/// The dynamic linker's symbols, without which Valgrind does not start on Debian.
pub(crate) const LIBC_SYMBOLS: Need = Need {
    package: "libc6-dbg",
    what: "libc's debug symbols (for valgrind)",
    is_here: || !on_path("dpkg") || installed("libc6-dbg"),
};
/// `strace`.
pub(crate) const STRACE: Need = Need {
    package: "strace",
    what: "strace",
    is_here: || on_path("strace"),
};
/// `nm` and `readelf`.
pub(crate) const BINUTILS: Need = Need {
    package: "binutils",
    what: "nm and readelf",
    is_here: || on_path("nm") && on_path("readelf"),
};
/// A display without a screen.
pub(crate) const XVFB: Need = Need {
    package: "xvfb",
    what: "Xvfb",
    is_here: || on_path("Xvfb"),
};
/// The viewer.
pub(crate) const VITE: Need = Need {
    package: "vite",
    what: "the viewer ViTE",
    is_here: || on_path("vite"),
};
/// Resizes windows.
pub(crate) const XDOTOOL: Need = Need {
    package: "xdotool",
    what: "xdotool",
    is_here: || on_path("xdotool"),
};
/// ImageMagick's `import` takes the picture.
pub(crate) const IMAGEMAGICK: Need = Need {
    package: "imagemagick",
    what: "ImageMagick's import",
    is_here: || on_path("import"),
};

/// Sees to it that all `needs` are there: installs what is missing when this is root on Debian, else fails with the
/// line that installs it.
pub(crate) fn ensure(needs: &[Need]) -> Result<()> {
    report::heading("packages");
    let missing = missing(needs);
    if missing.is_empty() {
        report::fact("all that is needed is here");
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    if !on_path("apt-get") {
        let list: Vec<String> = missing
            .iter()
            .map(|need| format!("  {} (on Debian: {})", need.what, need.package))
            .collect();
        return Err(Failure::missing(format!(
            "this machine lacks:\n{}",
            list.join("\n")
        )));
    }
    if !is_root() {
        return Err(Failure::missing(format!(
            "packages are missing; install them and try again:\n  sudo apt-get update && sudo apt-get install -y \
             --no-install-recommends {}",
            packages.join(" ")
        )));
    }
    report::fact(&format!("installing {}", packages.join(" ")));
    run(&mut apt(&["update", "-q"]))?;
    let mut install = apt(&["install", "-yq", "--no-install-recommends"]);
    run(install.args(&packages))?;
    let still: Vec<&str> = self::missing(needs).iter().map(|need| need.what).collect();
    if still.is_empty() {
        Ok(())
    } else {
        Err(Failure::missing(format!(
            "apt-get succeeded, and yet this machine lacks: {}",
            still.join(", ")
        )))
    }
}

fn missing(needs: &[Need]) -> Vec<&Need> {
    needs.iter().filter(|need| !(need.is_here)()).collect()
}

fn apt(words: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    // Another apt may be at work (a fresh cloud machine updates itself): wait for it.
    command
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn on_path(name: &str) -> bool {
    find(name).is_some()
}

fn installed(package: &str) -> bool {
    succeeds(Command::new("dpkg").args(["-s", package]))
}

fn is_root() -> bool {
    // The owner of our own process folder is our effective user: no need to call into libc.
    use std::os::unix::fs::MetadataExt as _;
    Path::new("/proc/self")
        .metadata()
        .is_ok_and(|meta| meta.uid() == 0)
}

fn libclang_is_here() -> bool {
    std::env::var_os("LIBCLANG_PATH").is_some()
        || installed("libclang-dev")
        || [
            "/usr/lib",
            "/usr/lib64",
            "/usr/lib/x86_64-linux-gnu",
            "/usr/lib/aarch64-linux-gnu",
        ]
        .iter()
        .any(|folder| Path::new(folder).join("libclang.so").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_missing_and_the_rest_is_not() {
        let needs = [
            Need {
                package: "sh",
                what: "a shell",
                is_here: || on_path("sh"),
            },
            Need {
                package: "no-such-package",
                what: "nothing",
                is_here: || on_path("no-such-program-anywhere"),
            },
        ];
        let missing: Vec<&str> = missing(&needs).iter().map(|need| need.package).collect();
        assert_eq!(missing, ["no-such-package"]);
    }
}
