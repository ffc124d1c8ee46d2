//! The folder in the user's cache directory that keeps fetched files between runs.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::error::missing;

/// `$XDG_CACHE_HOME/nccl-profiler-otf2`, or the same below `~/.cache`.
pub(crate) struct Cache {
    folder: PathBuf,
    /// Held while this process lives: two concurrent commands must not fetch into the same place.
    _lock: Option<File>,
}

impl Cache {
    /// Opens the cache; waits while another command is filling it.
    pub(crate) fn open() -> Result<Self> {
        let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let folder = base(xdg, std::env::home_dir())?.join("nccl-profiler-otf2");
        create(&folder)?;
        let lock = lock(&folder.join("lock"))?;
        Ok(Self { folder, _lock: lock })
    }

    /// A subfolder: `venv`, `nccl` with one folder per version, `cupti` with one per set of headers.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A new, empty folder inside the cache, so that a rename out of it is atomic; removed when dropped.
    pub(crate) fn scratch(&self) -> Result<TempDir> {
        tempfile::tempdir_in(&self.folder).with_context(|| format!("create a folder in {}", self.folder.display()))
    }
}

pub(crate) fn create(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))
}

/// Removes a folder and its contents; a missing folder is not an error.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done.with_context(|| format!("remove {}", folder.display())),
    }
}

pub(crate) fn put(whole: &Path, name: &Path) -> Result<()> {
    create(name.parent().unwrap_or(name))?;
    std::fs::rename(whole, name).with_context(|| format!("rename to {}", name.display()))
}

pub(crate) fn write(file: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("write {}", file.display()))
}

pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    Ok(files)
}

fn base(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf> {
    // The XDG specification requires that relative paths are ignored.
    xdg.filter(|folder| folder.is_absolute())
        .or_else(|| Some(home.filter(|folder| folder.is_absolute())?.join(".cache")))
        .ok_or_else(|| missing("neither XDG_CACHE_HOME nor HOME names an absolute folder for the cache"))
}

fn lock(path: &Path) -> Result<Option<File>> {
    let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => {
            println!("   waiting for another command that holds {}", path.display());
        }
        // Some network file systems have no locks. Concurrent commands are rare: continue without one.
        Err(std::fs::TryLockError::Error(_)) => return Ok(None),
    }
    file.lock().with_context(|| format!("lock {}", path.display()))?;
    Ok(Some(file))
}
