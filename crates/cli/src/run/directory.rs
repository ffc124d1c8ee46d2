//! Chooses the job's directory, and checks whether it may be used.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use journal::part::DUMPS;
use journal::part::environment::JobEnvironment;
use journal::part::job::{self, CLAIM, JobDirectory, OTHER_JOBS};
use journal::part::read_process;

use regular_files::refuse_foreign;
use rustix::system::uname;
use settings::PathValues;

use super::request::Request;
use crate::calendar;
use crate::place::{PAGE, PARTS};
use crate::print;
use archive::ANCHOR;
use journal::host;

/// The archive's directory as an absolute path, the same for all processes of the job.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    made: bool,
    /// The directory of parts before the command ran; `None` if other processes of the job created it, too.
    parts: Option<Stamps>,
}

/// Whether the recording was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleared {
    No,
    /// The directory of parts is gone or was replaced.
    Removed,
    /// A part was there. A plugin that finds no room for its journal removes its own part.
    Emptied,
}

/// When a directory was created, if known, and when an entry was last added or removed.
type Stamps = (Option<SystemTime>, Option<SystemTime>);

fn stamps(directory: &Path) -> Option<Stamps> {
    let data = directory.metadata().ok()?;
    Some((data.created().ok(), data.modified().ok()))
}

impl Directory {
    /// The directory the user named, or one named after the command. A run without a job id gets one.
    pub(crate) fn choose(named: Option<&Path>, program: &OsStr, job: &mut JobEnvironment) -> Result<Self> {
        let by_default = default_name(program, job);
        if job.job.is_none() && !is_one_of_many(job) {
            job.belong_to(&format!("{}-{}", calendar::now(), std::process::id()));
        }
        let path = match (named, env::var("NCCL_OTF2_DIR")) {
            (Some(named), _) => match named.to_str() {
                Some(template) => expand("--out", template, job)?.into(),
                None => named.to_owned(),
            },
            (None, Ok(template)) if !template.is_empty() => expand("NCCL_OTF2_DIR", &template, job)?.into(),
            _ => by_default?.into(),
        };
        let path = std::path::absolute(&path)
            .with_context(|| format!("{}: the current directory cannot be used", path.display()))?;
        Ok(Self { path, made: false, parts: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path for the plugin's variable, in which the plugin expands `%`.
    pub(crate) fn as_variable(&self) -> Result<String> {
        let path = self.path.to_str().ok_or_else(|| anyhow!("{}: the name is not UTF-8", self.path.display()))?;
        Ok(path.replace('%', "%%"))
    }

    /// Creates the directory early, so that a bad name is reported before the job runs. With `--append` the run joins
    /// the job that recorded there; else it gets a directory of its own inside.
    pub(crate) fn prepare(&mut self, program: &OsStr, request: &Request, job: &mut JobEnvironment) -> Result<()> {
        ensure!(!self.path.is_file(), "{} is a file: --out names a directory for the job", self.path.display());
        self.as_variable()?;
        refuse_foreign(&self.path, "--out").map_err(|reason| anyhow!(reason))?;
        self.clear(program, request, job)?;
        if let (true, Some(claim)) = (request.append, job::owner(&self.path)?) {
            job.belong_to(&claim.name);
        }
        let failed = || format!("cannot make {} (--out names another)", self.path.display());
        // Nobody else may read the recording, or put files there.
        let is_new = !self.path.exists();
        host::directories(&self.path).with_context(failed)?;
        let JobDirectory { path, other, .. } = job::directory(&self.path, job, 0).with_context(failed)?;
        self.made = is_new || !path.join(PARTS).exists() && path != self.path;
        if let Some(other) = other {
            print::note(format_args!(
                "{} holds recordings of another run ({other}): this one's go into {} (--append adds them to it, \
                 -o 'trace-%j' names a directory for each job)",
                self.path.display(),
                path.display()
            ));
            self.path = path;
        }
        if !is_one_of_many(job) {
            let parts = self.path.join(PARTS);
            host::directories(&parts).with_context(|| format!("cannot make {}", parts.display()))?;
            self.parts = stamps(&parts);
        }
        Ok(())
    }

    /// Whether the recording was removed while the command ran. `is_empty`: whether no part is there.
    pub(crate) fn was_cleared(&self, is_empty: bool) -> Cleared {
        let now = stamps(&self.path.join(PARTS));
        match (self.parts, now) {
            (Some(_), None) => Cleared::Removed,
            (Some((made, _)), Some(now)) if made != now.0 => Cleared::Removed,
            (Some((_, changed)), Some(now)) if is_empty && changed != now.1 => Cleared::Emptied,
            (None, Some(_)) if is_empty => Cleared::Emptied,
            _ => Cleared::No,
        }
    }

    /// Whether no part was added while the command ran; unknown, hence false, among the processes of a job.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.parts.is_some() && self.parts == stamps(&self.path.join(PARTS))
    }

    fn clear(&self, program: &OsStr, request: &Request, job: &JobEnvironment) -> Result<()> {
        let path = self.path.display();
        if request.force {
            ensure!(
                !is_one_of_many(job),
                "--force cannot be used by the processes of a job, they would remove each other's \
                 parts: remove {path} before the job starts"
            );
            ensure!(is_found(program), "cannot run {}: no such program; nothing was removed", program.display());
            return self.remove_archive();
        }
        ensure!(
            !request.append || !self.path.join(ANCHOR).exists() || self.path.join(PARTS).exists(),
            "{path} holds an archive without the parts that it was made of ({PARTS}/): nothing can be added to it; name \
             another directory with --out, and combine the two with `nccl-otf2 merge`"
        );
        // It may be the only archive of a long job.
        ensure!(
            request.append || !self.path.join(ANCHOR).exists(),
            "{path} holds an archive already: name another directory with --out, \
             replace the archive with --force, or add to it with --append"
        );
        Ok(())
    }

    /// Removes the archive's files, its page and nothing else; the anchor first, because it makes the rest an archive.
    fn remove_archive(&self) -> Result<()> {
        let directory = self.path.display();
        let names = [ANCHOR, "traces.def", "traces", PARTS, DUMPS, CLAIM, hang::FILE, PAGE];
        if let Some(file) = archive::foreign_file(&self.path) {
            bail!(
                "--force: {} is not of an archive: move it away, or name another directory with --out",
                file.display()
            );
        }
        if !self.path.join(ANCHOR).exists() && job::owner(&self.path)?.is_none() {
            match names.iter().find(|name| self.path.join(name).exists()) {
                Some(name) => {
                    bail!("--force: {directory} has {name}, but no recording: name another directory with --out")
                }
                None => return Ok(()),
            }
        }
        let mut parts = archive::part_directories(&self.path).unwrap_or_default().into_iter();
        if let Some(part) = parts.find(|part| read_process(part).0.is_recording()) {
            bail!(
                "--force: a process records into {} now: end its job, or name another directory with --out",
                part.display()
            );
        }
        for name in names {
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

    /// Removes the claim if nothing was recorded, and the directory if this process created it and it is empty.
    pub(crate) fn release_if_unused(&self) {
        let parts = self.path.join(PARTS);
        let _has_dumps = fs::remove_dir(self.path.join(DUMPS));
        if self.parts.is_some() {
            // Fails unless the directory is empty.
            let _not_empty = fs::remove_dir(&parts);
        }
        if parts.exists() {
            return;
        }
        // Nothing was recorded: the directory belongs to no job.
        let _not_there = fs::remove_file(self.path.join(CLAIM));
        if !self.made {
            return;
        }
        // `remove_dir` only removes empty directories; usually the directory is not empty.
        let _not_empty = fs::remove_dir(&self.path);
        if let Some(around) = self.path.parent().filter(|around| around.ends_with(OTHER_JOBS)) {
            let _not_empty = fs::remove_dir(around);
        }
    }
}

/// Whether the system finds a program, as far as that can be told without running it.
fn is_found(program: &OsStr) -> bool {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.exists();
    }
    env::var_os("PATH").is_none_or(|folders| env::split_paths(&folders).any(|folder| folder.join(path).is_file()))
}

/// Whether a launcher started this tool once for each process of the job.
pub(crate) fn is_one_of_many(job: &JobEnvironment) -> bool {
    job.rank.is_some() && job.size != Some(1)
}

/// The plugin's default contains a time, which differs between processes; this name is one for all.
fn default_name(program: &OsStr, job: &JobEnvironment) -> Result<String> {
    let program = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
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

fn expand(source: &str, template: &str, job: &JobEnvironment) -> Result<String> {
    if template.replace("%%", "").contains("%p") {
        bail!("{source}={template} is another directory in every process (%p): name one for all with --out");
    }
    let host = uname().nodename().to_string_lossy().into_owned();
    Ok(settings::expand(template, &PathValues { host, process_id: 0, job: job.job.clone(), rank: job.rank }))
}
