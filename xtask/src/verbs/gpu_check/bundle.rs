//! The folder that is copied to the machine with the GPU.
//!
//! ```text
//! DIR/gpu-check                  the program that runs the checks
//! DIR/BUNDLE                     what it was made of
//! DIR/bin/   nccl-host nccl-otf2 plugin-host
//! DIR/lib/   the plugin, and one that does nothing
//! DIR/fake/  the doubles of GPU and CUPTI
//! ```

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cache;
use crate::cargo::{self, Profile};
use crate::error::missing;
use crate::process;

pub(super) const PACKAGES: &[&str] = &[
    "gpu-check",
    "nccl-host",
    "nccl-otf2",
    "plugin-host",
    "nccl-profiler-otf2",
    "nccl-profiler-empty",
    "fake-gpu",
    "fake-cupti",
];

/// Built files, and their destinations.
const FILES: &[(&str, &str)] = &[
    ("gpu-check", "gpu-check"),
    ("nccl-host", "bin/nccl-host"),
    ("nccl-otf2", "bin/nccl-otf2"),
    ("plugin-host", "bin/plugin-host"),
    ("libnccl_profiler_otf2.so", "lib/libnccl-profiler-otf2.so"),
    ("libnccl_profiler_empty.so", "lib/libnccl-profiler-empty.so"),
    ("libfakegpu.so", "fake/libfakegpu.so"),
    ("libfake_cupti.so", "fake/libcupti.so.13"),
];

const MOST_BYTES: u64 = 40 << 20;

/// Rebuilds the folder and returns its program; refuses to replace any other folder.
pub(super) fn make(folder: &Path, profile: Profile) -> Result<PathBuf> {
    let used = cache::list(folder).is_ok_and(|files| !files.is_empty());
    if used && !folder.join("BUNDLE").is_file() {
        return Err(missing(format!("{} exists and is not such a folder: name a new one", folder.display())));
    }
    cache::remove(folder)?;
    for sub in ["bin", "lib", "fake"] {
        cache::create(&folder.join(sub))?;
    }
    // Written first, so that an incomplete folder may be replaced, too.
    let about = folder.join("BUNDLE");
    cache::write(&about, "")?;
    let mut strip = Command::new("strip");
    for (built, to) in FILES {
        let to = folder.join(to);
        let from = cargo::built(profile, built)?;
        std::fs::copy(&from, &to).with_context(|| format!("copy {}", from.display()))?;
        strip.arg(&to);
    }
    process::run(&mut strip)?;
    // With this name, the double stands in for the driver.
    symlink("libfakegpu.so", folder.join("fake/libcuda.so.1")).context("link libcuda.so.1")?;
    let (bytes, glibc) = (size(folder)?, newest_glibc(folder)?);
    let (version, commit, arch) = (env!("CARGO_PKG_VERSION"), cargo::commit("--dirty"), std::env::consts::ARCH);
    let profile_name = profile.name();
    cache::write(
        &about,
        format!(
            "version: {version}\ncommit: {commit}\nprofile: {profile_name}\nneeds_glibc: {glibc}\nmachine: {arch}\n"
        ),
    )?;
    let size = format!("{:.1} MiB", mebibytes(bytes));
    println!("   {}: {size}, needs glibc {glibc} or later, {arch}", folder.display());
    // Programs that are not optimized are for trial runs only; their size does not matter.
    let small = bytes <= MOST_BYTES || profile == Profile::Debug;
    ensure!(small, "the folder has {size}, more than {:.0}", mebibytes(MOST_BYTES));
    Ok(folder.join("gpu-check"))
}

fn size(folder: &Path) -> Result<u64> {
    let sizes = FILES.iter().map(|(_, file)| Ok(folder.join(file).metadata()?.len()));
    sizes.sum::<std::io::Result<u64>>().context("look at the copies")
}

#[expect(clippy::cast_precision_loss, reason = "for one digit behind the point")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The newest version of the C library's symbols that any of the files needs.
fn newest_glibc(folder: &Path) -> Result<String> {
    let mut readelf = Command::new("readelf");
    readelf.args(["--wide", "--version-info"]);
    readelf.args(FILES.iter().map(|(_, file)| folder.join(file)));
    newest(&process::output(&mut readelf, "readelf")?).context("readelf names no version of the C library's symbols")
}

fn newest(text: &str) -> Option<String> {
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (major, minor) = rest.get(..end)?.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    let (major, minor) = versions.max()?;
    Some(format!("{major}.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_the_largest_number() {
        let text = "  0x0010: Name: GLIBC_2.9  Flags\n  Name: GLIBC_2.34  x GLIBC_2.2.5\nName: GLIBC_PRIVATE";
        assert_eq!(newest(text).as_deref(), Some("2.34"));
        assert_eq!(newest("nothing"), None);
    }
}
