//! What the job's launcher put into the environment: rank, size, job id.

use std::collections::BTreeMap;

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
    /// What the launcher calls the host; in a container the host name may say nothing.
    pub node_name: Option<String>,
    /// What the batch system calls the cluster.
    pub cluster: Option<String>,
    /// Job id, with the step where there is one: the first of `ids` in the order of [`JOBS`].
    pub job: Option<String>,
    /// Every id that the environment has of the job, by variable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ids: BTreeMap<String, String>,
    /// How often torchrun has restarted the workers before this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u32>,
    /// Which launcher the rank came from.
    pub launcher: Option<String>,
}

/// A launcher's variables; an empty name where it has none.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    local_size: &'static str,
    node: &'static str,
    /// Without this one it did not start this process: its variables come from further up.
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

/// Those that start others' processes come last: the first whose rank is set counts (torchrun inside a Slurm step, say;
/// jsrun sets Open MPI's variables, PALS and Flux those of PMI).
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

/// The variable with which a user, or `nccl-otf2 run`, says which job a process is of.
pub const JOB_VARIABLE: &str = "NCCL_OTF2_JOB";

/// Where job ids come from.
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

/// Where the names of hosts come from.
const NODE_NAMES: &[&str] = &["SLURMD_NODENAME", "PMIX_HOSTNAME", "NODE_NAME"];

impl Launcher {
    /// What it says, if it started this process.
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

/// The components of a heterogeneous Slurm job share a numbering of ranks, but each has a step of its own with its
/// own number of tasks: how many there are in all is not said.
fn is_heterogeneous(get: &impl Fn(&str) -> Option<String>) -> bool {
    get("SLURM_HET_SIZE").is_some_and(|size| size.trim() != "1")
}

/// The job id in a variable, with what tells apart the jobs that share it.
fn job_id(name: &str, get: &impl Fn(&str) -> Option<String>) -> Option<String> {
    // torchrun's default run id is the word "none": the same for all jobs.
    let id = get(name).filter(|id| !id.is_empty() && id != "none")?;
    // The steps of a Slurm job, and the jobs of an array, have one id.
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
        let mut said = LAUNCHERS.iter().filter_map(|launcher| launcher.read(&get));
        let mut job = said.next().unwrap_or_default();
        // Where a launcher does not say everything, one that gives this process the same rank started it, too. A job of
        // one is none: an interactive step, within which the other one started the job.
        for other in said.filter(|other| other.rank == job.rank) {
            job.size = job.size.or(other.size.filter(|size| *size > 1));
            job.local_rank = job.local_rank.or(other.local_rank);
            job.local_size = job.local_size.or(other.local_size);
            job.node = job.node.or(other.node);
        }
        job.node_name = NODE_NAMES.iter().find_map(|name| get(name).filter(|name| !name.is_empty()));
        job.cluster = get("SLURM_CLUSTER_NAME").filter(|name| !name.is_empty());
        job.ids = JOBS.iter().filter_map(|name| Some(((*name).to_owned(), job_id(name, &get)?))).collect();
        job.job = JOBS.iter().find_map(|name| job.ids.get(*name).cloned());
        job.restarts = get("TORCHELASTIC_RESTART_COUNT").and_then(|count| count.trim().parse().ok());
        job
    }

    /// Says which job this is, whatever the launcher says.
    pub fn belong_to(&mut self, job: &str) {
        self.job = Some(job.to_owned());
        self.ids.insert(JOB_VARIABLE.to_owned(), job.to_owned());
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
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    /// What a process says of itself: launcher, rank, size, rank on the host.
    fn who(pairs: &[(&str, &str)]) -> (String, [Option<u32>; 5]) {
        let job = read(pairs);
        let numbers = [job.rank, job.size, job.local_rank, job.local_size, job.node];
        (job.launcher.unwrap_or_default(), numbers)
    }

    fn expect(pairs: &[(&str, &str)], launcher: &str, numbers: [i64; 5]) {
        // -1: not known.
        let numbers = numbers.map(|number| u32::try_from(number).ok());
        assert_eq!(who(pairs), (launcher.to_owned(), numbers), "{pairs:?}");
    }

    #[test]
    fn each_launcher_is_understood() {
        expect(
            &[
                ("RANK", "11"),
                ("WORLD_SIZE", "16"),
                ("LOCAL_RANK", "3"),
                ("LOCAL_WORLD_SIZE", "8"),
                ("GROUP_RANK", "1"),
            ],
            "torchrun",
            [11, 16, 3, 8, 1],
        );
        expect(
            &[
                ("OMPI_COMM_WORLD_RANK", "5"),
                ("OMPI_COMM_WORLD_SIZE", "8"),
                ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
                ("PMIX_RANK", "5"),
            ],
            "Open MPI",
            [5, 8, 1, 4, -1],
        );
        // jsrun on LSF: Spectrum MPI is an Open MPI.
        expect(
            &[
                ("JSM_NAMESPACE_RANK", "7"),
                ("JSM_NAMESPACE_SIZE", "12"),
                ("JSM_NAMESPACE_LOCAL_RANK", "1"),
                ("JSM_NAMESPACE_LOCAL_SIZE", "6"),
                ("OMPI_COMM_WORLD_RANK", "7"),
                ("OMPI_COMM_WORLD_SIZE", "12"),
                ("PMIX_RANK", "7"),
                ("LSB_JOBID", "99"),
            ],
            "jsrun",
            [7, 12, 1, 6, -1],
        );
        expect(
            &[("MV2_COMM_WORLD_RANK", "1"), ("MV2_COMM_WORLD_SIZE", "2"), ("MV2_COMM_WORLD_LOCAL_RANK", "0")],
            "MVAPICH",
            [1, 2, 0, -1, -1],
        );
        // PALS says the size in PMI's variables only.
        expect(
            &[
                ("PALS_RANKID", "9"),
                ("PALS_NODEID", "2"),
                ("PALS_LOCAL_RANKID", "1"),
                ("PALS_LOCAL_SIZE", "4"),
                ("PMI_RANK", "9"),
                ("PMI_SIZE", "12"),
                ("PBS_JOBID", "5.head"),
            ],
            "PALS",
            [9, 12, 1, 4, 2],
        );
        expect(
            &[
                ("FLUX_TASK_RANK", "3"),
                ("FLUX_JOB_SIZE", "4"),
                ("FLUX_TASK_LOCAL_ID", "1"),
                ("PMI_RANK", "3"),
                ("PMI_SIZE", "4"),
                ("FLUX_JOB_ID", "\u{192}Gr7"),
            ],
            "Flux",
            [3, 4, 1, -1, -1],
        );
        expect(
            &[("PMI_RANK", "6"), ("PMI_SIZE", "8"), ("MPI_LOCALRANKID", "2"), ("MPI_LOCALNRANKS", "4")],
            "PMI",
            [6, 8, 2, 4, -1],
        );
        expect(
            &[
                ("SLURM_PROCID", "2"),
                ("SLURM_STEP_ID", "0"),
                ("SLURM_STEP_NUM_TASKS", "4"),
                ("SLURM_NTASKS", "4"),
                ("SLURM_LOCALID", "0"),
                ("SLURM_NODEID", "1"),
            ],
            "Slurm",
            [2, 4, 0, -1, 1],
        );
    }

    #[test]
    fn a_step_that_speaks_pmix_has_slurms_size() {
        let step = [
            ("PMIX_RANK", "2"),
            ("SLURM_PROCID", "2"),
            ("SLURM_STEP_ID", "1"),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_LOCALID", "0"),
            ("SLURM_NODEID", "1"),
        ];
        expect(&step, "PMIx", [2, 4, 0, -1, 1]);
        // Started from within an interactive step, of which all are task 0.
        let within = [("PMIX_RANK", "0"), ("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "1"), ("SLURM_STEP_NUM_TASKS", "1")];
        expect(&within, "PMIx", [0, -1, -1, -1, -1]);
        let within = [("PMIX_RANK", "3"), ("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "1"), ("SLURM_STEP_NUM_TASKS", "8")];
        expect(&within, "PMIx", [3, -1, -1, -1, -1]);
    }

    /// A batch script is task 0 of nothing, and what it starts by other means inherits that.
    #[test]
    fn a_batch_script_is_no_rank() {
        let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_LOCALID", "0"), ("SLURM_JOB_ID", "77")];
        let job = read(&batch);
        assert_eq!((job.rank, job.size, job.launcher), (None, None, None));
        assert_eq!(job.job.as_deref(), Some("77"));
    }

    #[test]
    fn the_size_of_a_component_is_not_that_of_a_heterogeneous_job() {
        let component =
            [("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_HET_SIZE", "2")];
        expect(&component, "Slurm", [1, -1, -1, -1, -1]);
        let mut one = component.to_vec();
        one[3].1 = "1";
        expect(&one, "Slurm", [1, 4, -1, -1, -1]);
    }

    #[test]
    fn names_of_hosts_and_jobs() {
        let job = read(&[("SLURMD_NODENAME", "nid001"), ("LSB_JOBID", "12"), ("LSB_JOBINDEX", "3")]);
        assert_eq!(job.node_name.as_deref(), Some("nid001"));
        assert_eq!(job.job.as_deref(), Some("12.3"));
        let job = read(&[("LSB_JOBID", "12"), ("LSB_JOBINDEX", "0")]);
        assert_eq!((job.job.as_deref(), job.node_name), (Some("12"), None));
    }

    #[test]
    fn the_user_has_the_last_word_on_which_job_it_is() {
        let job = read(&[("NCCL_OTF2_JOB", "both"), ("SLURM_JOB_ID", "77"), ("SLURM_STEP_ID", "1")]);
        assert_eq!(job.job.as_deref(), Some("both"));
        assert_eq!(job.ids["SLURM_JOB_ID"], "77.1");
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
        assert_eq!((job.rank, job.size, job.local_rank), (Some(5), Some(8), Some(1)));
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
