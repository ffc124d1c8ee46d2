//! The locations of a session's files.

use std::path::{Path, PathBuf};

use crate::scorep::substrate;
use journal::part::ProcessInfo;
use journal::part::job::{self, JobDirectory};
use journal::part::{JOURNAL, PARTS};

use journal::host;
use regular_files::refuse_foreign;
use settings::{Config, PathValues};

pub(super) struct Directories {
    pub(super) out: PathBuf,
    pub(super) part: PathBuf,
    pub(super) journal: PathBuf,
    pub(super) job: String,
    /// The job that owns the requested directory, if `out` is another directory inside it.
    pub(super) other_job: Option<String>,
    /// Whether the template has `%j` but there is no job id.
    pub(super) lacks_job_id: bool,
}

impl Directories {
    pub(super) fn make(config: &Config, process: &ProcessInfo) -> Result<Self, String> {
        let values = PathValues {
            host: process.host.clone(),
            process_id: process.pid,
            job: process.environment.job.clone(),
            rank: process.environment.rank,
        };
        let started_ns = process.session_start_realtime_ns;
        let JobDirectory { path: out, job, other: other_job } = output(config, &values, process)?;
        let name = format!("{}-{}-{started_ns}", process.host, process.pid);
        let part = out.join(PARTS).join(&name);
        host::directory(&part)
            .map_err(|error| format!("{}: {error} (NCCL_OTF2_DIR says where the archive goes)", part.display()))?;
        match journal(config, &values, &part, &name) {
            Ok(journal) => {
                let is_asked_for = |template: &String| template.replace("%%", "").contains("%j");
                let lacks_job_id = values.job.is_none() && config.directory.as_ref().is_some_and(is_asked_for);
                Ok(Self { out, part, journal, job, other_job, lacks_job_id })
            }
            Err(reason) => {
                let _best_effort = std::fs::remove_dir_all(&part);
                Err(reason)
            }
        }
    }

    pub(super) fn remove(&self) {
        let _best_effort = std::fs::remove_dir_all(&self.journal);
        let _best_effort = std::fs::remove_dir_all(&self.part);
    }
}

/// Makes the job's directory with its `parts`, inside the requested directory if another job owns that.
fn output(config: &Config, values: &PathValues, process: &ProcessInfo) -> Result<JobDirectory, String> {
    let now_ns = process.session_start_realtime_ns;
    let relative = match (&config.directory, substrate::archive_directory()) {
        (Some(template), _) => settings::expand(template, values).into(),
        (None, Some(directory)) => directory,
        (None, None) if values.job.is_some() => settings::expand("nccl-otf2-%j", values).into(),
        (None, None) => format!("nccl-otf2-{}", settings::date_and_time(now_ns / 1_000_000_000)).into(),
    };
    let path =
        std::path::absolute(&relative).map_err(|error| format!("NCCL_OTF2_DIR={}: {error}", relative.display()))?;
    refuse_foreign(&path, "NCCL_OTF2_DIR")?;
    let refused = |error| format!("{}: {error} (NCCL_OTF2_DIR says where the archive goes)", path.display());
    let place = job::directory(&path, &process.environment, process.first_comm).map_err(refused)?;
    let parts = place.path.join(PARTS);
    refuse_foreign(&place.path, "NCCL_OTF2_DIR")?;
    refuse_foreign(&parts, "NCCL_OTF2_DIR")?;
    host::directories(&parts).map_err(refused)?;
    Ok(place)
}

/// Makes a part's journal directory: inside the part, or at the user's location with a link in the part.
fn journal(config: &Config, values: &PathValues, part: &Path, name: &str) -> Result<PathBuf, String> {
    let inside = part.join(JOURNAL);
    let Some(template) = &config.journal_directory else {
        host::directory(&inside).map_err(|error| format!("{}: {error}", inside.display()))?;
        return Ok(inside);
    };
    let outside = PathBuf::from(settings::expand(template, values)).join(name);
    let outside = std::path::absolute(&outside).unwrap_or(outside);
    let parent = outside.parent().unwrap_or(&outside);
    refuse_foreign(parent, "NCCL_OTF2_JOURNAL_DIR")?;
    let made = host::directories(parent).and_then(|()| host::directory(&outside));
    made.map_err(|error| format!("NCCL_OTF2_JOURNAL_DIR: {}: {error}", outside.display()))?;
    // With the link, a reader of the part finds the journal without knowing the variable.
    std::os::unix::fs::symlink(&outside, &inside).map_err(|error| format!("{}: {error}", inside.display()))?;
    Ok(outside)
}
