//! The folder under the user's cache directory that keeps what was fetched between runs.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::failure::{Context as _, Failure, Result};
use crate::report;

/// `$XDG_CACHE_HOME/nccl-profiler-otf2`, or the same below `~/.cache`.
pub(crate) struct Cache {
    folder: PathBuf,
    /// Held while this process lives: two commands at once must not fetch into the same place.
    _lock: Option<File>,
}

impl Cache {
    /// Opens the cache; waits while another command is filling it.
    pub(crate) fn open() -> Result<Self> {
        let folder = base(
            std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from),
            std::env::home_dir(),
        )?
        .join("nccl-profiler-otf2");
        std::fs::create_dir_all(&folder).or_fail(|| format!("create {}", folder.display()))?;
        let lock = lock(&folder.join("lock"))?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// The folder of the Python environment.
    pub(crate) fn venv(&self) -> PathBuf {
        self.folder.join("venv")
    }

    /// The folder with one folder per NCCL version.
    pub(crate) fn nccl(&self) -> PathBuf {
        self.folder.join("nccl")
    }

    /// The folder with one folder per set of CUPTI's headers.
    pub(crate) fn cupti(&self) -> PathBuf {
        self.folder.join("cupti")
    }

    /// A new, empty folder inside the cache, so that a rename out of it is atomic.
    pub(crate) fn scratch(&self, purpose: &str) -> Result<Scratch> {
        let folder = self
            .folder
            .join(format!("tmp-{purpose}-{}", std::process::id()));
        remove_folder(&folder)?;
        std::fs::create_dir_all(&folder).or_fail(|| format!("create {}", folder.display()))?;
        Ok(Scratch { folder })
    }
}

/// A folder that goes away with its owner.
pub(crate) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left is only disk space, and the next run with this process id removes it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Removes a folder and what is in it; that it does not exist is fine.
pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::missing(
            format!("cannot remove {}: {error}", folder.display()),
        )),
        _ => Ok(()),
    }
}

fn base(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf> {
    // The XDG rule: a relative path there is to be ignored.
    xdg.filter(|folder| folder.is_absolute())
        .or_else(|| {
            home.filter(|folder| folder.is_absolute())
                .map(|folder| folder.join(".cache"))
        })
        .ok_or_else(|| {
            Failure::missing(
                "neither XDG_CACHE_HOME nor HOME names an absolute folder for the cache",
            )
        })
}

fn lock(path: &Path) -> Result<Option<File>> {
    let file = File::create(path).or_fail(|| format!("create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => {
            report::fact(&format!(
                "waiting for another command that holds {}",
                path.display()
            ));
        }
        // Some network file systems have no locks; two commands at once are rare enough to go on.
        Err(std::fs::TryLockError::Error(_)) => return Ok(None),
    }
    file.lock().or_fail(|| format!("lock {}", path.display()))?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_xdg_folder_wins_unless_it_is_relative() {
        let home = || Some(PathBuf::from("/home/someone"));
        assert_eq!(
            base(Some("/scratch".into()), home()).unwrap(),
            Path::new("/scratch")
        );
        assert_eq!(
            base(Some("scratch".into()), home()).unwrap(),
            Path::new("/home/someone/.cache")
        );
        assert_eq!(
            base(None, home()).unwrap(),
            Path::new("/home/someone/.cache")
        );
        assert_eq!(
            base(None, None).unwrap_err().exit_code(),
            std::process::ExitCode::from(2)
        );
    }
}
