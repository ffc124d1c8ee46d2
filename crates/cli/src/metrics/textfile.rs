//! Writes a file for node exporter's textfile collector, replaced atomically.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct TextFile {
    directory: PathBuf,
    path: PathBuf,
    failed: bool,
}

impl TextFile {
    pub(super) fn new(directory: &Path, job: &Path) -> Self {
        let job = job.canonicalize().unwrap_or_else(|_| job.to_owned());
        let name = job.file_name().unwrap_or_default().to_string_lossy();
        let name: String =
            name.chars().map(|it| if it.is_ascii_alphanumeric() || "-_.".contains(it) { it } else { '_' }).collect();
        Self { directory: directory.to_owned(), path: directory.join(format!("nccl_otf2_{name}.prom")), failed: false }
    }

    /// Replaces the text. Returns a message when writing starts to fail, and when it works again.
    pub(super) fn write(&mut self, text: &str) -> Result<Option<String>, Option<String>> {
        let path = self.path.display();
        match self.replace(text) {
            Ok(()) => Ok(std::mem::take(&mut self.failed).then(|| format!("{path} is written again"))),
            Err(error) => {
                let is_new = !std::mem::replace(&mut self.failed, true);
                Err(is_new.then(|| format!("cannot write {path}: {error}")))
            }
        }
    }

    /// Opens no file that others put into the directory. The collector runs as another user, and reads `*.prom` files.
    fn replace(&self, text: &str) -> io::Result<()> {
        let mut unfinished =
            tempfile::Builder::new().prefix(".nccl_otf2_").suffix(".tmp").tempfile_in(&self.directory)?;
        unfinished.write_all(text.as_bytes())?;
        unfinished.as_file().set_permissions(Permissions::from_mode(0o644))?;
        unfinished.persist(&self.path)?;
        Ok(())
    }

    /// Removes the file: values that are no longer updated would stay forever.
    pub(super) fn remove(self) {
        let _not_there = fs::remove_file(self.path);
    }
}
