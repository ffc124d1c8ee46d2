//! What the job's launcher put into the environment: rank, size, job id.

/// The job as this process sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct JobEnvironment {
    /// Rank in the job.
    pub rank: Option<u32>,
    /// Processes in the job.
    pub size: Option<u32>,
    /// Rank on the host.
    pub local_rank: Option<u32>,
    /// Job id, with the step where there is one.
    pub job: Option<String>,
    /// Which launcher the rank came from.
    pub launcher: Option<String>,
}

/// Per launcher: name, rank, size, local rank. The first whose rank is set counts, so that a rank and a
/// size never come from different launchers (torchrun inside a Slurm step, say).
const LAUNCHERS: &[(&str, &str, &str, &str)] = &[
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    (
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
    ),
    ("PMIx", "PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK"),
    ("PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    (
        "Slurm",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
    ),
];

/// Where job ids come from.
const JOBS: &[&str] = &[
    "SLURM_JOB_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "FLUX_JOB_ID",
    "COBALT_JOBID",
    "JOB_ID",
    "TORCHELASTIC_RUN_ID",
    "PMIX_NAMESPACE",
];

impl JobEnvironment {
    /// Reads variables through `get`.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| get(name).and_then(|value| value.trim().parse::<u32>().ok());
        let mut job = Self::default();
        for (launcher, rank, size, local) in LAUNCHERS {
            if let Some(found) = number(rank) {
                job.rank = Some(found);
                job.size = number(size).filter(|size| *size > found);
                job.local_rank = number(local);
                job.launcher = Some((*launcher).to_owned());
                break;
            }
        }
        // torchrun's default run id is the word "none": the same for all jobs.
        job.job = JOBS
            .iter()
            .find_map(|name| get(name).filter(|id| !id.is_empty() && id != "none"));
        if let (Some(id), Some(step)) = (&mut job.job, get("SLURM_STEP_ID"))
            && get("SLURM_JOB_ID").as_ref() == Some(id)
        {
            id.push('.');
            id.push_str(&step);
        }
        job
    }

    /// Reads the process's environment.
    #[must_use]
    pub fn of_process() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> JobEnvironment {
        JobEnvironment::from_variables(|name| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn torchrun_inside_slurm_counts_torchruns_ranks() {
        let job = read(&[
            ("RANK", "5"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_JOB_ID", "77"),
            ("SLURM_STEP_ID", "0"),
            ("TORCHELASTIC_RUN_ID", "none"),
        ]);
        assert_eq!(
            (job.rank, job.size, job.local_rank),
            (Some(5), Some(8), Some(1))
        );
        assert_eq!(job.job.as_deref(), Some("77.0"));
    }

    #[test]
    fn a_size_that_cannot_be_is_not_believed() {
        assert_eq!(read(&[("PMI_RANK", "3"), ("PMI_SIZE", "2")]).size, None);
    }

    #[test]
    fn nothing_set_is_nothing_known() {
        assert_eq!(read(&[]), JobEnvironment::default());
    }
}
