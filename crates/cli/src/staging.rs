//! A temporary directory in which an output is made before it is moved into place.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

/// A directory next to the wanted one; removed unless its content is moved into place.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    wanted: PathBuf,
    is_in_place: bool,
}

impl Staging {
    pub(crate) fn create(wanted: &Path) -> Result<Self> {
        refuse_existing(wanted)?;
        let parent = match wanted.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let name = wanted.file_name().map(|name| name.to_string_lossy());
        let Some(name) = name else {
            bail!("{}: not the name of a directory", wanted.display());
        };
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let path = parent.join(format!(".{name}.{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path, wanted: wanted.to_owned(), is_in_place: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn put_in_place(mut self) -> Result<()> {
        self.rename(&self.path)?;
        self.is_in_place = true;
        Ok(())
    }

    /// Renames a file or directory inside to the wanted name.
    pub(crate) fn put_in_place_of(self, made: &str) -> Result<()> {
        self.rename(&self.path.join(made))
    }

    fn rename(&self, made: &Path) -> Result<()> {
        refuse_existing(&self.wanted)?;
        fs::rename(made, &self.wanted).with_context(|| format!("cannot put {} in place", self.wanted.display()))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_in_place {
            // Leftovers are harmless, and the reason for the failure matters more.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// Only a page may be replaced: no other file, no device, and no target of a link.
pub(crate) fn refuse_irreplaceable(wanted: &Path) -> Result<()> {
    refuse_dash(wanted)?;
    let is_of_archive = wanted.extension().is_some_and(|it| otf2::FILE_EXTENSIONS.iter().any(|own| it == *own));
    ensure!(
        !is_of_archive || !wanted.exists(),
        "{} is a file of an archive; name another one with -o",
        wanted.display()
    );
    regular_files::refuse_other_than_file(wanted)
        .with_context(|| format!("cannot replace {}; name another one with -o", wanted.display()))?;
    ensure!(
        !wanted.exists() || is_page(wanted),
        "{} exists and is not a page; name another one with -o, or remove it",
        wanted.display()
    );
    Ok(())
}

/// Whether a file is empty, or begins like a page of HTML.
fn is_page(path: &Path) -> bool {
    const BEGIN: &[u8] = b"<!doctype html";
    let mut begin = Vec::new();
    let read =
        regular_files::open(path, u64::MAX).and_then(|file| file.take(BEGIN.len() as u64).read_to_end(&mut begin));
    read.is_ok() && (begin.is_empty() || begin.eq_ignore_ascii_case(BEGIN))
}

/// Elsewhere, `-` means stdout.
fn refuse_dash(wanted: &Path) -> Result<()> {
    ensure!(wanted != Path::new("-"), "-: this is not written to stdout; ./- names a file that is called so");
    Ok(())
}

/// Fails if the output exists: nothing is overwritten.
pub(crate) fn refuse_existing(wanted: &Path) -> Result<()> {
    refuse_dash(wanted)?;
    if fs::symlink_metadata(wanted).is_ok() {
        bail!("{} exists already; name another one with -o, or remove it", wanted.display());
    }
    Ok(())
}
