//! The folder that goes to the machine with the GPU.
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

use crate::cache::remove_folder;
use crate::cargo::{self, Profile};
use crate::failure::{Context as _, Failure, Result};
use crate::process;
use crate::report;

/// What has to be built.
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

/// Built files, and where they go.
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

/// What travels is to be small.
const MOST_BYTES: u64 = 40 << 20;

/// A folder that is made.
pub(super) struct Bundle {
    folder: PathBuf,
}

impl Bundle {
    /// Makes it anew of what is built; replaces only a folder that is one.
    pub(super) fn make(folder: &Path, profile: Profile) -> Result<Self> {
        if folder.exists() && !folder.join("BUNDLE").is_file() && !is_empty(folder) {
            return Err(Failure::usage(format!(
                "{} is there, and no such folder: name one that is not there",
                folder.display()
            )));
        }
        remove_folder(folder)?;
        for sub in ["bin", "lib", "fake"] {
            let sub = folder.join(sub);
            std::fs::create_dir_all(&sub).or_fail(|| format!("create {}", sub.display()))?;
        }
        // First: what is half made may be replaced too.
        let about = folder.join("BUNDLE");
        std::fs::write(&about, "").or_fail(|| format!("write {}", about.display()))?;
        let mut strip = Command::new("strip");
        for (built, to) in FILES {
            let to = folder.join(to);
            let from = cargo::built(profile, built)?;
            std::fs::copy(&from, &to).or_fail(|| format!("copy {}", from.display()))?;
            strip.arg(&to);
        }
        process::run(&mut strip)?;
        // Under this name the stand-in is a driver.
        symlink("libfakegpu.so", folder.join("fake/libcuda.so.1"))
            .or_fail(|| "link libcuda.so.1".to_owned())?;
        let bytes = size(folder)?;
        let glibc = newest_glibc(folder)?;
        let optimized = match profile {
            Profile::Debug => "debug",
            Profile::Release => "release",
        };
        let lines = format!(
            "version: {}\ncommit: {}\nprofile: {optimized}\nneeds_glibc: {glibc}\nmachine: {}\n",
            env!("CARGO_PKG_VERSION"),
            commit(),
            std::env::consts::ARCH
        );
        std::fs::write(&about, lines).or_fail(|| format!("write {}", about.display()))?;
        report::fact(&format!(
            "{}: {:.1} MiB, needs glibc {glibc} or later, {}",
            folder.display(),
            mebibytes(bytes),
            std::env::consts::ARCH
        ));
        // Programs that are not optimized are for trying it out; they do not travel.
        if bytes > MOST_BYTES && matches!(profile, Profile::Release) {
            return Err(Failure::wrong(format!(
                "the folder has {:.1} MiB, more than {:.0}",
                mebibytes(bytes),
                mebibytes(MOST_BYTES)
            )));
        }
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    pub(super) fn program(&self) -> PathBuf {
        self.folder.join("gpu-check")
    }
}

fn is_empty(folder: &Path) -> bool {
    folder
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_none())
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for (_, file) in FILES {
        let file = folder.join(file);
        let meta = file.metadata();
        bytes += meta
            .or_fail(|| format!("look at {}", file.display()))?
            .len();
    }
    Ok(bytes)
}

#[expect(clippy::cast_precision_loss, reason = "for one digit behind the point")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The newest version of the C library's symbols that any of the files asks for.
fn newest_glibc(folder: &Path) -> Result<String> {
    let mut readelf = Command::new("readelf");
    readelf.args(["--wide", "--version-info"]);
    readelf.args(FILES.iter().map(|(_, file)| folder.join(file)));
    let text = process::capture(&mut readelf)?.stdout;
    newest(&String::from_utf8_lossy(&text))
        .ok_or_else(|| Failure::wrong("readelf names no version of the C library's symbols"))
}

fn newest(text: &str) -> Option<String> {
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (major, minor) = rest.get(..end)?.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    let (major, minor) = versions.max()?;
    Some(format!("{major}.{minor}"))
}

fn commit() -> String {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty"])
        .current_dir(cargo::root());
    match process::capture(&mut git) {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
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

    #[test]
    fn a_folder_of_somebody_else_is_left_alone() {
        let folder = std::env::temp_dir().join(format!("xtask-bundle-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("mine"), "x").unwrap();
        let refused = Bundle::make(&folder, Profile::Debug)
            .err()
            .map(|failure| failure.message().to_owned());
        assert!(folder.join("mine").is_file());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(refused.is_some_and(|message| message.contains("is there")));
    }
}
