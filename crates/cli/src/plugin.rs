//! Finds the plugin that belongs to this tool.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Result, anyhow};

/// The plugin's file name when installed, and as cargo builds it.
const NAMES: [&str; 2] = ["libnccl-profiler-otf2.so", "libnccl_profiler_otf2.so"];

/// Directories where installations put libraries, relative to the tool's directory. Debian has one for each processor.
fn places() -> [String; 4] {
    let debian_path = format!("../lib/{}-linux-gnu", env::consts::ARCH);
    [".".to_owned(), "../lib".to_owned(), "../lib64".to_owned(), debian_path]
}

/// Where the wheel has the plugin, in a folder of Python packages.
const IN_PACKAGES: &str = "nccl_otf2/lib/libnccl-profiler-otf2.so";

/// The plugin, as an absolute path: the job's processes may have other working directories.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return existing(path).ok_or_else(|| anyhow!("--plugin {}: no such file", path.display()));
    }
    let program = env::current_exe().and_then(|path| path.canonicalize());
    let program = program.map_err(|error| {
        anyhow!(
            "cannot find the plugin, because the location of this program is unknown ({error}); name the plugin \
            with --plugin PATH"
        )
    })?;
    find_beside(program.parent().unwrap_or(Path::new("/")))
}

fn find_beside(directory: &Path) -> Result<PathBuf> {
    let candidates: Vec<PathBuf> =
        places().iter().flat_map(|place| NAMES.map(|name| directory.join(place).join(name))).collect();
    let wheel_paths = python_packages(&directory.join("..")).into_iter().map(|packages| packages.join(IN_PACKAGES));
    let mut everywhere = candidates.iter().cloned().chain(wheel_paths);
    everywhere.find_map(|candidate| existing(&candidate)).ok_or_else(|| {
        let candidates: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
        anyhow!(
            "cannot find the plugin: none of these files exists: {}. Install the plugin there (package \
            libnccl-profiler-otf2), or name it with --plugin PATH",
            candidates.join(", ")
        )
    })
}

/// The absolute path of a file. Does not resolve the file itself if it is a link, because an upgrade may replace the
/// link's target.
fn existing(path: &Path) -> Option<PathBuf> {
    let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let found = directory.canonicalize().ok()?.join(path.file_name()?);
    found.is_file().then_some(found)
}

/// Where Python keeps packages below a prefix. `pip install --target` puts them into the prefix itself.
pub(crate) fn python_packages(prefix: &Path) -> Vec<PathBuf> {
    let folders = ["lib", "lib64", "local/lib"].into_iter().flat_map(|folder| fs::read_dir(prefix.join(folder)));
    let folders = folders.flatten().flatten();
    let versions = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    let packages = versions.flat_map(|entry| ["site-packages", "dist-packages"].map(|name| entry.path().join(name)));
    let mut packages: Vec<PathBuf> =
        packages.chain([prefix.to_owned()]).filter_map(|folder| folder.canonicalize().ok()).collect();
    nccl_events::sort::sort(&mut packages);
    packages.dedup();
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_has_it_in_lib_or_lib64() {
        let prefix = tempfile::tempdir().expect("a directory");
        let bin = prefix.path().join("bin");
        fs::create_dir(&bin).expect("bin");
        let message = find_beside(&bin).expect_err("nothing is installed").to_string();
        assert!(message.contains("/bin/../lib64/libnccl-profiler-otf2.so"), "{message}");
        assert!(message.contains("--plugin"), "{message}");

        for place in ["lib64", "lib"] {
            let library = prefix.path().join(place).join("libnccl-profiler-otf2.so");
            fs::create_dir(library.parent().expect("has one")).expect("library directory");
            fs::write(&library, "").expect("library");
            let found = find_beside(&bin).expect("found");
            assert_eq!(found, library.canonicalize().expect("is there"));
        }
    }

    #[test]
    fn the_name_without_a_version_is_used() {
        let prefix = tempfile::tempdir().expect("a directory");
        let link = prefix.path().join("libnccl-profiler-otf2.so");
        fs::write(prefix.path().join("libnccl-profiler-otf2.so.1.0.0"), "").expect("library");
        std::os::unix::fs::symlink("libnccl-profiler-otf2.so.1.0.0", &link).expect("link");
        assert!(find_beside(prefix.path()).expect("found").ends_with("libnccl-profiler-otf2.so"));
        assert!(find(Some(&link)).expect("found").ends_with("libnccl-profiler-otf2.so"));
    }

    #[test]
    fn a_wheel_has_it_in_its_package() {
        for packages in ["lib/python3.13/site-packages", "local/lib/python3.11/dist-packages", "."] {
            let prefix = tempfile::tempdir().expect("a directory");
            let library = prefix.path().join(packages).join(IN_PACKAGES);
            fs::create_dir_all(library.parent().expect("has one")).expect("library directory");
            fs::create_dir(prefix.path().join("bin")).expect("bin");
            fs::write(&library, "").expect("library");
            let found = find_beside(&prefix.path().join("bin")).expect("found");
            assert_eq!(found, library.canonicalize().expect("is there"));
        }
    }
}
