//! The job's directory: which one, and whether it may be used.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use journal::part::environment::JobEnvironment;
use nccl_profiler_otf2::config::{self, PathValues};
use rustix::system::uname;

use crate::calendar;
use crate::place::{ANCHOR, PARTS};
use crate::print;

/// What to do with an archive that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Nothing: it may be the only one of a long job.
    Refuse,
    /// Remove it.
    Replace,
    /// Add to it.
    Append,
}

/// The directory of the archive, absolute: all processes of the job mean the same.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Whether it was not there before.
    made: std::cell::Cell<bool>,
}

impl Directory {
    /// The directory that the user named, or one named after the command.
    ///
    /// # Errors
    ///
    /// When each process would choose another one.
    pub(crate) fn choose(named: Option<&Path>, program: &OsStr, job: &JobEnvironment) -> Result<Self> {
        let path = match (named, env::var("NCCL_OTF2_DIR")) {
            (Some(named), _) => named.to_owned(),
            (None, Ok(template)) if !template.is_empty() => expand(&template, job)?.into(),
            _ => default_name(program, job)?.into(),
        };
        let path =
            std::path::absolute(&path).with_context(|| format!("cannot understand the path {}", path.display()))?;
        Ok(Self { path, made: false.into() })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its name for the plugin, which fills in `%` in it.
    ///
    /// # Errors
    ///
    /// When the name is not UTF-8: the plugin could not read it.
    pub(crate) fn as_variable(&self) -> Result<String> {
        let path = self.path.to_str();
        let path = path.ok_or_else(|| anyhow!("{}: the name is not UTF-8", self.path.display()))?;
        Ok(path.replace('%', "%%"))
    }

    /// Makes the directory; early, so that a bad name is reported before the job runs.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or holds an archive that is to stay.
    pub(crate) fn prepare(&self, existing: Existing, job: &JobEnvironment) -> Result<()> {
        self.clear(existing, job)?;
        if existing == Existing::Refuse && !is_one_of_many(job) && self.has_parts() {
            print::note(format_args!(
                "{0} holds recordings of another run, which become part of the same archive; if they are \
                 not of one job, name another directory with --out (`nccl-otf2 finalize {0}` saves them)",
                self.path.display()
            ));
        }
        let parent = self.path.parent().unwrap_or(&self.path);
        let failed = || format!("cannot make {} (--out names another)", self.path.display());
        // Nobody else is to read what was recorded, or put anything there.
        let mut private = fs::DirBuilder::new();
        private.mode(0o700).recursive(true);
        private.create(parent).with_context(failed)?;
        match private.recursive(false).create(&self.path) {
            Ok(()) => self.made.set(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && self.path.is_dir() => {}
            Err(error) => return Err(error).with_context(failed),
        }
        Ok(())
    }

    /// Whether processes recorded here before.
    fn has_parts(&self) -> bool {
        fs::read_dir(self.path.join(PARTS)).is_ok_and(|mut parts| parts.next().is_some())
    }

    fn clear(&self, existing: Existing, job: &JobEnvironment) -> Result<()> {
        let path = self.path.display();
        let has_archive = self.path.join(ANCHOR).exists();
        match existing {
            Existing::Refuse if has_archive => bail!(
                "{path} holds an archive already: name another directory with --out, \
                 replace the archive with --force, or add to it with --append"
            ),
            Existing::Replace if is_one_of_many(job) => bail!(
                "--force cannot be used by the processes of a job, they would remove each other's \
                 parts: remove {path} before the job starts"
            ),
            Existing::Replace => self.remove_archive(),
            _ => Ok(()),
        }
    }

    /// Removes what is the archive's, nothing else, the anchor first: without it there is no archive.
    fn remove_archive(&self) -> Result<()> {
        for name in [ANCHOR, "traces.def", "traces", PARTS] {
            let path = self.path.join(name);
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match removed {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("--force: cannot remove {}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the directory when this process made it and nobody put anything into it.
    pub(crate) fn forget_if_unused(&self) {
        if self.made.get() {
            // Only an empty directory can be removed like this; that it is not empty is the usual case.
            let _not_empty = fs::remove_dir(&self.path);
        }
    }
}

/// Whether a launcher started this tool once for each process of the job.
pub(crate) fn is_one_of_many(job: &JobEnvironment) -> bool {
    job.rank.is_some() && job.size != Some(1)
}

/// The plugin's own default has a time of its own in every process; here there is one for all.
fn default_name(program: &OsStr, job: &JobEnvironment) -> Result<String> {
    let program = Path::new(program).file_name().unwrap_or(program);
    let program = program.to_string_lossy();
    let distinction = match (&job.job, job.rank) {
        (Some(job), _) => job.replace('/', "_"),
        (None, Some(rank)) if is_one_of_many(job) => bail!(
            "this is rank {rank} of a job without a job id: \
             name a directory for all its processes with --out"
        ),
        _ => calendar::now(),
    };
    Ok(format!("nccl-otf2-{program}-{distinction}"))
}

/// Fills in `NCCL_OTF2_DIR` as the plugin would.
fn expand(template: &str, job: &JobEnvironment) -> Result<String> {
    if template.replace("%%", "").contains("%p") {
        bail!(
            "NCCL_OTF2_DIR={template} is another directory in every process (%p): \
             name one for all with --out"
        );
    }
    let host = uname().nodename().to_string_lossy().into_owned();
    Ok(config::expand(template, &PathValues { host, process_id: 0, job: job.job.clone(), rank: job.rank }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(path: &Path) -> Directory {
        Directory::choose(Some(path), OsStr::new("x"), &JobEnvironment::default()).expect("chosen")
    }

    #[test]
    fn an_archive_is_replaced_only_when_asked_for_and_nothing_else_is() {
        let temporary = tempfile::tempdir().expect("a directory");
        let job = JobEnvironment::default();
        for name in [ANCHOR, "notes.txt"] {
            fs::write(temporary.path().join(name), "").expect(name);
        }
        let directory = directory(temporary.path());
        let refused = directory.prepare(Existing::Refuse, &job).expect_err("refused");
        for word in ["--out", "--force", "--append"] {
            assert!(refused.to_string().contains(word), "{refused}");
        }
        directory.prepare(Existing::Append, &job).expect("may add");
        assert!(temporary.path().join(ANCHOR).exists());
        directory.prepare(Existing::Replace, &job).expect("may replace");
        assert!(!temporary.path().join(ANCHOR).exists());
        assert!(temporary.path().join("notes.txt").exists());
    }

    #[test]
    fn only_the_user_can_look_into_what_is_made() {
        use std::os::unix::fs::PermissionsExt as _;
        let temporary = tempfile::tempdir().expect("a directory");
        let outer = temporary.path().join("outer");
        let directory = directory(&outer.join("trace"));
        directory.prepare(Existing::Refuse, &JobEnvironment::default()).expect("made");
        for made in [directory.path(), &outer] {
            let mode = fs::metadata(made).expect("there").permissions().mode();
            assert_eq!(mode & 0o7777, 0o700, "{}", made.display());
        }
    }

    #[test]
    fn ranks_of_a_job_do_not_remove_each_others_parts() {
        let temporary = tempfile::tempdir().expect("a directory");
        let job = JobEnvironment { rank: Some(1), size: Some(2), ..JobEnvironment::default() };
        let directory = directory(temporary.path());
        directory.prepare(Existing::Replace, &job).expect_err("refused");
    }

    #[test]
    fn ranks_of_a_job_agree_on_a_directory_or_are_told() {
        let mut job = JobEnvironment { rank: Some(1), size: Some(2), ..JobEnvironment::default() };
        let told = default_name(OsStr::new("/bin/python"), &job).expect_err("no job id");
        assert!(told.to_string().contains("--out"), "{told}");
        job.job = Some("77.0".to_owned());
        let name = default_name(OsStr::new("/bin/python"), &job).expect("a job id");
        assert_eq!(name, "nccl-otf2-python-77.0");
    }

    #[test]
    fn a_percent_sign_is_one_for_the_plugin_too() {
        let directory = directory(Path::new("/nowhere/100%p"));
        assert_eq!(directory.as_variable().expect("UTF-8"), "/nowhere/100%%p");
    }

    #[test]
    fn a_directory_per_process_is_refused() {
        let job = JobEnvironment::default();
        expand("trace-%p", &job).expect_err("one per process");
        assert_eq!(expand("trace-%%p", &job).expect("one"), "trace-%p");
    }
}
