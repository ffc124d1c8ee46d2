//! Finds and opens the archive that a path refers to: a directory or its anchor file.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::output;
use analysis::Trace;
use anyhow::{Context as _, Error, Result, bail, ensure};
use journal::part::job::other_jobs;
use otf2::Archive;
use parking_lot::Mutex;
use settings::shell_word;

pub(crate) use analysis::is_nccl;
pub(crate) use archive::ANCHOR;
pub(crate) use journal::part::PARTS;

/// The page of `report`, beside the archive.
pub(crate) const PAGE: &str = "report.html";

/// Advice on where a recording is.
const NAMES: &str = "name the directory of `nccl-otf2 run -o` or NCCL_OTF2_DIR; without these it is \
    nccl-otf2-COMMAND-JOB where the job was started";
const SHARING: &str = "only the user who recorded it may read it; to share it: chmod -R g+rX";

/// Whether a path exists; an error if that cannot be determined, instead of reporting it as missing.
fn is_there(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|source| {
        let text = match source.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("cannot read {} ({SHARING})", path.parent().unwrap_or(path).display())
            }
            _ => format!("cannot read {}", path.display()),
        };
        Error::new(source).context(text)
    })
}

pub(crate) fn has_parts(path: &Path) -> Result<bool> {
    if !is_there(path)? {
        bail!("{}: no such file or directory; {NAMES}", path.display());
    }
    let parts = path.join(PARTS);
    // Test for a directory first: looking inside a regular file would be an error.
    Ok(path.is_dir() && is_there(&parts)? && parts.is_dir())
}

/// The job's directory, also if `path` is its anchor or the directory of its parts.
pub(crate) fn directory(path: &Path) -> &Path {
    let is_parts = path.ends_with(PARTS) && path.is_dir() && !path.join(PARTS).is_dir();
    let is_inside = is_parts || path.ends_with(ANCHOR) && !path.is_dir();
    match path.parent().filter(|_| is_inside) {
        Some(around) if around.as_os_str().is_empty() => Path::new("."),
        Some(around) => around,
        None => path,
    }
}

pub(crate) fn job_argument(text: &str) -> Result<PathBuf, Infallible> {
    Ok(directory(Path::new(text)).to_owned())
}

pub(crate) fn job(path: &Path) -> Result<&Path> {
    ensure!(has_parts(path)?, "{}: not the directory of a recorded job: it has no {PARTS}/; {NAMES}", path.display());
    Ok(path)
}

/// The directories of other jobs that recorded into the directory of an archive or a job.
pub(crate) fn other_jobs_beside(path: &Path) -> Vec<String> {
    other_jobs(directory(path)).iter().map(|job| job.display().to_string()).collect()
}

/// Notes, once per path, which other jobs recorded into the directory: only one job is read.
pub(crate) fn note_other_jobs(path: &Path) {
    static NOTED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let others = other_jobs_beside(path);
    let is_new = || NOTED.lock().insert(directory(path).to_owned());
    if !others.is_empty() && is_new() {
        output::note(format_args!(
            "{} also holds recordings of other jobs, which are not included: {}",
            directory(path).display(),
            others.join(", ")
        ));
    }
}

/// The anchor file of the archive at `path`: a job's directory, its anchor, or the directory of its parts.
pub(crate) fn anchor(path: &Path) -> Result<PathBuf> {
    let path = if path.is_dir() { directory(path) } else { path };
    if !is_there(path)? {
        bail!("{}: no such file or directory; {NAMES}", path.display());
    }
    if path.is_dir() {
        let anchor = path.join(ANCHOR);
        // An anchor that is not a regular file is reported by the code that opens it.
        if anchor.symlink_metadata().is_ok() || is_there(&anchor)? {
            return Ok(anchor);
        }
        let (shown, word) = (path.display(), shell_word(path));
        if has_parts(path)? {
            let is_empty = fs::read_dir(path.join(PARTS)).is_ok_and(|mut entries| entries.next().is_none());
            ensure!(
                !is_empty,
                "{shown}: no process recorded anything; `nccl-otf2 doctor` finds most of the usual causes"
            );
            bail!(
                "{shown}: no archive yet, only recordings of processes. While the job runs, `nccl-otf2 top {word}` \
                shows its operations, and `nccl-otf2 dump {word}` makes an archive of the recording so far; once the \
                job has ended, `nccl-otf2 finalize {word}` makes the archive"
            );
        }
        return match named_otherwise(path).as_slice() {
            [] => bail!("{shown}: no archive here: neither {ANCHOR}, nor another *.otf2, nor {PARTS}/; {NAMES}"),
            [only] => Ok(only.clone()),
            [first, .., last] => bail!(
                "{shown}: several archives here, from {} to {}: name one of them",
                first.display(),
                last.display()
            ),
        };
    }
    // A link named by the user refers to the archive that it points to.
    let path =
        if path.is_symlink() { path.canonicalize().unwrap_or_else(|_| path.to_owned()) } else { path.to_owned() };
    let is_anchor = path.extension().is_some_and(|extension| extension == "otf2");
    ensure!(is_anchor, "{}: not the anchor file of an archive: its name must end in .otf2", path.display());
    Ok(path)
}

/// The anchor files in a directory with any name, because other writers do not use the name that this project uses.
fn named_otherwise(directory: &Path) -> Vec<PathBuf> {
    let is_anchor = |path: &PathBuf| path.extension().is_some_and(|end| end == "otf2") && path.is_file();
    let mut found: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_anchor).collect();
    nccl_events::sort::sort(&mut found);
    found
}

/// Advice if a file of an archive is missing or damaged: the parts still exist.
pub(crate) fn remedy(error: &Error) -> Option<String> {
    let mut remedies = error.chain().filter_map(|error| match error.downcast_ref::<otf2::Error>()? {
        otf2::Error::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some(SHARING.to_owned()),
        otf2::Error::Damaged { path, .. } | otf2::Error::Io { path, .. } => remedy_of(path),
        _ => None,
    });
    remedies.next()
}

pub(crate) fn remedy_of(file: &Path) -> Option<String> {
    let mut jobs = file.ancestors().skip(1).take(2).filter(|directory| directory.join(PARTS).is_dir());
    let job = jobs.next().map(|job| if job == Path::new("") { Path::new(".") } else { job })?;
    Some(format!("the parts still exist: `nccl-otf2 finalize {}` makes the archive again", shell_word(job)))
}

/// Whether the path is an archive: an anchor file, or a directory that contains one.
pub(crate) fn is_archive(path: &Path) -> bool {
    path.join(ANCHOR).symlink_metadata().is_ok()
        || (!path.join(PARTS).is_dir() && !named_otherwise(path).is_empty())
        || (path.is_file() && path.extension().is_some_and(|end| end == "otf2"))
}

/// Opens the archive that the user names.
pub(crate) fn open(path: &Path) -> Result<Trace> {
    let anchor = anchor(path)?;
    note_other_jobs(&anchor);
    let archive = Archive::open(&anchor).context("cannot open the archive")?;
    Trace::read(anchor, archive).context("cannot read the archive")
}

/// Like [`open`], but refuses archives that do not state the kinds of locations, which identify operations.
pub(crate) fn open_with_kinds(path: &Path) -> Result<Trace> {
    let trace = open(path)?;
    if is_nccl(&trace.archive) && !trace.has_location_kinds() {
        bail!(
            "{}: its locations have no NCCL::LOCATION_KIND, because an older build made the archive; run `nccl-otf2 \
             finalize` again on its journals",
            trace.anchor.display()
        );
    }
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_read_an_archive_is_not_told_to_make_it_again() {
        let job = tempfile::tempdir().expect("a directory");
        fs::create_dir(job.path().join(PARTS)).expect("made");
        let remedy_for = |kind: io::ErrorKind| {
            let error = otf2::Error::Io { operation: "read", path: job.path().join("traces.def"), source: kind.into() };
            remedy(&Error::new(error)).expect("a remedy")
        };
        assert!(remedy_for(io::ErrorKind::PermissionDenied).contains("chmod"));
        assert!(remedy_for(io::ErrorKind::NotFound).contains("finalize"));
    }
}
