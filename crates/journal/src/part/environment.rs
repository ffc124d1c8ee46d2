//! The environment of a recording process: rank, size and job id from the variables of the job's launcher
//! ([`JobEnvironment`]), and how much of a recording an archive shows ([`Level`]).

use std::collections::BTreeMap;
use std::str::FromStr;

use nccl_events::Kind;
use nccl_events::sort::Gather;
use serde::{Deserialize, Serialize};

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
    /// Processes of the job on this host.
    pub local_size: Option<u32>,
    /// Number of the host in the job.
    pub node: Option<u32>,
    /// The launcher's name for the host; in a container the host name may be arbitrary.
    pub node_name: Option<String>,
    /// The batch system's name for the cluster.
    pub cluster: Option<String>,
    /// Job id, with the step if there is one: the first of `ids` in the order of [`JOBS`].
    pub job: Option<String>,
    /// Every id of the job that the environment contains, by variable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ids: BTreeMap<String, String>,
    /// How often torchrun has restarted the workers before this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u32>,
    /// The launcher that set the rank.
    pub launcher: Option<String>,
}

/// A launcher's variables. An empty name means that the launcher sets no such variable.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    local_size: &'static str,
    node: &'static str,
    /// A variable that the launcher sets in every process it starts. Without it the others come from an outer process.
    needs: &'static str,
}

macro_rules! launchers {
    ($($name:literal: $rank:literal $size:literal $local_rank:literal $local_size:literal $node:literal $needs:literal;)+) => {
        &[$(Launcher {
            name: $name,
            rank: $rank,
            size: $size,
            local_rank: $local_rank,
            local_size: $local_size,
            node: $node,
            needs: $needs,
        },)+]
    };
}

/// Launchers that start other launchers come last, because the first one whose rank is set counts: torchrun may run
/// inside a Slurm step; jsrun also sets Open MPI's variables; PALS and Flux also set those of PMI.
const LAUNCHERS: &[Launcher] = launchers! {
    "torchrun": "RANK" "WORLD_SIZE" "LOCAL_RANK" "LOCAL_WORLD_SIZE" "GROUP_RANK" "";
    "jsrun": "JSM_NAMESPACE_RANK" "JSM_NAMESPACE_SIZE" "JSM_NAMESPACE_LOCAL_RANK" "JSM_NAMESPACE_LOCAL_SIZE" "" "";
    "Open MPI": "OMPI_COMM_WORLD_RANK" "OMPI_COMM_WORLD_SIZE" "OMPI_COMM_WORLD_LOCAL_RANK" "OMPI_COMM_WORLD_LOCAL_SIZE" "" "";
    "MVAPICH": "MV2_COMM_WORLD_RANK" "MV2_COMM_WORLD_SIZE" "MV2_COMM_WORLD_LOCAL_RANK" "MV2_COMM_WORLD_LOCAL_SIZE" "" "";
    "PALS": "PALS_RANKID" "" "PALS_LOCAL_RANKID" "PALS_LOCAL_SIZE" "PALS_NODEID" "";
    "Flux": "FLUX_TASK_RANK" "FLUX_JOB_SIZE" "FLUX_TASK_LOCAL_ID" "" "" "";
    "PMIx": "PMIX_RANK" "PMIX_SIZE" "PMIX_LOCAL_RANK" "PMIX_LOCAL_SIZE" "" "";
    "PMI": "PMI_RANK" "PMI_SIZE" "MPI_LOCALRANKID" "MPI_LOCALNRANKS" "" "";
    "PMI": "PMI_RANK" "PMI_SIZE" "PMI_LOCAL_RANK" "PMI_LOCAL_SIZE" "" "";
    "Slurm": "SLURM_PROCID" "SLURM_STEP_NUM_TASKS" "SLURM_LOCALID" "" "SLURM_NODEID" "SLURM_STEP_ID";
};

/// Names the job of a process; set by the user or by `nccl-otf2 run`.
pub const JOB_VARIABLE: &str = "NCCL_OTF2_JOB";

/// The variables with job ids, in order of precedence.
const JOBS: &[&str] = &[
    JOB_VARIABLE,
    "SLURM_JOB_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "FLUX_JOB_ID",
    "COBALT_JOBID",
    "OAR_JOB_ID",
    "JOB_ID",
    "TORCHELASTIC_RUN_ID",
    "PMIX_NAMESPACE",
];

/// The variables with host names, in order of precedence.
const NODE_NAMES: &[&str] = &["SLURMD_NODENAME", "PMIX_HOSTNAME", "NODE_NAME"];

impl Launcher {
    /// Reads the launcher's variables; `None` if it did not start this process.
    fn read(&self, get: &impl Fn(&str) -> Option<String>) -> Option<JobEnvironment> {
        let number = |name: &str| get(name).and_then(|value| value.trim().parse::<u32>().ok());
        let rank = number(self.rank)?;
        if !self.needs.is_empty() && get(self.needs).is_none() {
            return None;
        }
        let size = number(self.size).filter(|size| *size > rank);
        Some(JobEnvironment {
            rank: Some(rank),
            size: size.filter(|_| !(self.name == "Slurm" && is_heterogeneous(get))),
            local_rank: number(self.local_rank),
            local_size: number(self.local_size),
            node: number(self.node),
            launcher: Some(self.name.to_owned()),
            ..JobEnvironment::default()
        })
    }
}

/// The components of a heterogeneous Slurm job number their ranks together, but each is its own step with its own
/// number of tasks: no variable has the total.
fn is_heterogeneous(get: &impl Fn(&str) -> Option<String>) -> bool {
    get("SLURM_HET_SIZE").is_some_and(|size| size.trim() != "1")
}

/// The job id in a variable, plus the number that distinguishes jobs with the same id.
fn job_id(name: &str, get: &impl Fn(&str) -> Option<String>) -> Option<String> {
    // torchrun's default run id is the word "none", so it identifies no job.
    let id = get(name).filter(|id| !id.is_empty() && id != "none")?;
    // The steps of a Slurm job share an id, and so do the jobs of an LSF array.
    let place = match name {
        "SLURM_JOB_ID" => get("SLURM_STEP_ID"),
        "LSB_JOBID" => get("LSB_JOBINDEX").filter(|place| place != "0"),
        _ => None,
    };
    Some(place.map_or_else(|| id.clone(), |place| format!("{id}.{place}")))
}

impl JobEnvironment {
    /// Reads variables through `get`.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Self {
        let mut launched = LAUNCHERS.iter().filter_map(|launcher| launcher.read(&get));
        let mut job = launched.next().unwrap_or_default();
        // Fill gaps from launchers that give this process the same rank: they started it, too. A size of 1 does not
        // count: it is an interactive step, within which the other launcher started the job.
        for other in launched.filter(|other| other.rank == job.rank) {
            job.size = job.size.or(other.size.filter(|size| *size > 1));
            job.local_rank = job.local_rank.or(other.local_rank);
            job.local_size = job.local_size.or(other.local_size);
            job.node = job.node.or(other.node);
        }
        job.node_name = NODE_NAMES.iter().find_map(|name| get(name).filter(|name| !name.is_empty()));
        job.cluster = get("SLURM_CLUSTER_NAME").filter(|name| !name.is_empty());
        job.ids = JOBS.iter().filter_map(|name| Some(((*name).to_owned(), job_id(name, &get)?))).gather();
        job.job = JOBS.iter().find_map(|name| job.ids.get(*name).cloned());
        job.restarts = get("TORCHELASTIC_RESTART_COUNT").and_then(|count| count.trim().parse().ok());
        job
    }

    /// Sets the job's name, overriding the launcher's variables.
    pub fn belong_to(&mut self, job: &str) {
        self.job = Some(job.to_owned());
        self.ids.insert(JOB_VARIABLE.to_owned(), job.to_owned());
    }

    /// Reads the process's environment.
    pub fn read() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }
}

/// Which recorded kinds of events an archive shows. Hidden ones are counted, and still say when operations ran. It is
/// chosen when the archive is written: the choice of the process is in its `process.json`, that with which a part was
/// written in the part's manifest. All parts of an archive are written with the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Calls, launches, collectives, point-to-point and copy-engine operations.
    Light,
    /// `Light` and proxy operations.
    Standard,
    /// All kinds.
    #[default]
    Full,
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::CHOICES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim()));
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = Self::CHOICES.iter().map(|(name, _)| *name).collect();
            format!("not one of {}", names.join(", "))
        })
    }
}

impl Level {
    /// All choices, with their names.
    pub const CHOICES: &'static [(&'static str, Self)] =
        &[("light", Self::Light), ("standard", Self::Standard), ("full", Self::Full)];

    /// The name in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Standard => "standard",
            Self::Full => "full",
        }
    }

    /// Whether events of a kind are shown.
    pub const fn shows(self, kind: Kind) -> bool {
        self as u8 >= Self::for_kind(kind) as u8
    }

    /// The lowest level that shows a kind.
    const fn for_kind(kind: Kind) -> Self {
        match nccl_events::Preset::for_kind(kind) {
            nccl_events::Preset::Light => Self::Light,
            nccl_events::Preset::Standard => Self::Standard,
            nccl_events::Preset::Full => Self::Full,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) mod environment {
        use crate::part::environment::*;

        /// The environment of a process with these variables, as `NAME=value` with blanks between them.
        pub(in crate::part) fn read(variables: &str) -> JobEnvironment {
            JobEnvironment::from_variables(|name| {
                let mut variables = variables.split_whitespace().filter_map(|variable| variable.split_once('='));
                variables.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
            })
        }

        /// Rank, size, local rank, local size and node; -1 means unknown.
        #[test]
        fn each_launcher_is_understood() {
            for (variables, launcher, numbers) in [
                ("RANK=11 WORLD_SIZE=16 LOCAL_RANK=3 LOCAL_WORLD_SIZE=8 GROUP_RANK=1", "torchrun", [11, 16, 3, 8, 1]),
                // torchrun's ranks take precedence over those of the Slurm step around it.
                (
                    "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0",
                    "torchrun",
                    [5, 8, 1, -1, -1],
                ),
                (
                    "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 \
                 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_RANK=5",
                    "Open MPI",
                    [5, 8, 1, 4, -1],
                ),
                // jsrun on LSF: Spectrum MPI is an Open MPI.
                (
                    "JSM_NAMESPACE_RANK=7 JSM_NAMESPACE_SIZE=12 JSM_NAMESPACE_LOCAL_RANK=1 JSM_NAMESPACE_LOCAL_SIZE=6 \
                 OMPI_COMM_WORLD_RANK=7 OMPI_COMM_WORLD_SIZE=12 PMIX_RANK=7 LSB_JOBID=99",
                    "jsrun",
                    [7, 12, 1, 6, -1],
                ),
                (
                    "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_LOCAL_RANK=0",
                    "MVAPICH",
                    [1, 2, 0, -1, -1],
                ),
                // For PALS, only PMI's variables have the size.
                (
                    "PALS_RANKID=9 PALS_NODEID=2 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=4 PMI_RANK=9 PMI_SIZE=12 \
                 PBS_JOBID=5.head",
                    "PALS",
                    [9, 12, 1, 4, 2],
                ),
                (
                    "FLUX_TASK_RANK=3 FLUX_JOB_SIZE=4 FLUX_TASK_LOCAL_ID=1 PMI_RANK=3 PMI_SIZE=4 FLUX_JOB_ID=\u{192}Gr7",
                    "Flux",
                    [3, 4, 1, -1, -1],
                ),
                ("PMI_RANK=6 PMI_SIZE=8 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=4", "PMI", [6, 8, 2, 4, -1]),
                // A size that does not exceed the rank is ignored.
                ("PMI_RANK=3 PMI_SIZE=2", "PMI", [3, -1, -1, -1, -1]),
                (
                    "SLURM_PROCID=2 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_NODEID=1",
                    "Slurm",
                    [2, 4, 0, -1, 1],
                ),
                // The size of one component is not the size of the heterogeneous job.
                (
                    "SLURM_PROCID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_HET_SIZE=2",
                    "Slurm",
                    [1, -1, -1, -1, -1],
                ),
                ("SLURM_PROCID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_HET_SIZE=1", "Slurm", [1, 4, -1, -1, -1]),
                // A step with PMIx takes its size from Slurm.
                (
                    "PMIX_RANK=2 SLURM_PROCID=2 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0 SLURM_NODEID=1",
                    "PMIx",
                    [2, 4, 0, -1, 1],
                ),
                // Started from within an interactive step, whose processes are all task 0.
                ("PMIX_RANK=0 SLURM_PROCID=0 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=1", "PMIx", [0, -1, -1, -1, -1]),
                ("PMIX_RANK=3 SLURM_PROCID=0 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=8", "PMIx", [3, -1, -1, -1, -1]),
            ] {
                let job = read(variables);
                let found = [job.rank, job.size, job.local_rank, job.local_size, job.node];
                let numbers = numbers.map(|number: i64| u32::try_from(number).ok());
                assert_eq!((job.launcher.as_deref(), found), (Some(launcher), numbers), "{variables}");
            }
            assert_eq!(read(""), JobEnvironment::default());
        }

        /// A batch script is task 0 but no rank; what it starts without `srun` inherits its variables.
        #[test]
        fn a_batch_script_is_no_rank() {
            let job = read("SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0 SLURM_JOB_ID=77");
            assert_eq!((job.rank, job.size, job.launcher), (None, None, None));
            assert_eq!(job.job.as_deref(), Some("77"));
        }

        #[test]
        fn names_of_hosts_and_jobs() {
            for (variables, job, node_name) in [
                ("SLURMD_NODENAME=nid001 LSB_JOBID=12 LSB_JOBINDEX=3", "12.3", Some("nid001")),
                ("LSB_JOBID=12 LSB_JOBINDEX=0", "12", None),
                // The user's variable takes precedence.
                ("NCCL_OTF2_JOB=both SLURM_JOB_ID=77 SLURM_STEP_ID=1", "both", None),
                ("RANK=5 WORLD_SIZE=8 SLURM_JOB_ID=77 SLURM_STEP_ID=0 TORCHELASTIC_RUN_ID=none", "77.0", None),
            ] {
                let found = read(variables);
                assert_eq!((found.job.as_deref(), found.node_name.as_deref()), (Some(job), node_name), "{variables}");
            }
            assert_eq!(read("NCCL_OTF2_JOB=both SLURM_JOB_ID=77 SLURM_STEP_ID=1").ids["SLURM_JOB_ID"], "77.1");
        }
    }

    mod level {
        use crate::part::environment::*;

        #[test]
        fn levels_are_the_presets_of_recording() {
            use nccl_events::{FULL, LIGHT, STANDARD};
            for (level, mask) in [(Level::Light, LIGHT), (Level::Standard, STANDARD), (Level::Full, FULL)] {
                for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Unknown) {
                    assert_eq!(level.shows(kind), mask & kind.mask() != 0, "{level:?} {kind:?}");
                }
            }
        }

        #[test]
        fn a_word_that_means_nothing_is_refused() {
            assert_eq!("Light".parse(), Ok(Level::Light));
            let error = "lite".parse::<Level>().expect_err("no level");
            assert_eq!(error, "not one of light, standard, full");
        }
    }
}
