//! Programs that stand in for launchers, NCCL jobs and others, as files in a folder of `PATH`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use whole_plugin::built;
use whole_plugin::machine::{has, two_process_streams};

/// The tool, which notes its arguments and its exit code. What would go on until it is stopped looks once. An output
/// that is there is of a line before, which says how to make the same otherwise.
const TOOL: &str = "
previous=
for word; do
  case \"$1 $previous $*\" in
    *--append*) ;;
    'run -o '*|'export -o '*) rm -rf \"${word//%j/$SLURM_JOB_ID}\";;
  esac
  previous=$word
done
case \"$1 $*\" in
  *--once*|*--until-end*) ;;
  'watch '*) set -- \"$@\" --until-end;;
  'metrics '*) set -- \"$@\" --once;;
esac
code=0
'{tool}' \"$@\" || code=$?
echo \"$code $*\" >> \"$COMMANDS_LOG\"
";

/// A launcher or a container engine: its options and the name of an image end where a command begins.
const LAUNCHER: &str = "
while [ $# -gt 0 ] && ! { [ -n \"$(type -P -- \"$1\")\" ] && [ ! -d \"$1\" ]; }; do shift; done
export SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1
exec \"$@\"
";

/// A program that uses NCCL: two recorded processes.
const JOB: &str = "
unset SLURM_PROCID SLURM_STEP_NUM_TASKS
exec '{plugin_host}' replay '{first}' '{second}' --plugin '{plugin}' >/dev/null
";

/// A program that reads what it is given.
const READER: &str = "
cat >/dev/null
";

const LAUNCHERS: &[&str] = &["srun", "mpirun", "apptainer", "docker", "nsys"];
const JOBS: &[&str] = &["python", "torchrun", "vllm", "train", "all_reduce_perf", "COMMAND"];
const READERS: &[&str] = &["jq", "mail", "curl", "scancel", "rsync", "ray", "vampir", "page.sh", "all-clear.sh"];

pub(super) fn write(folder: &Path) {
    let text = |path: std::path::PathBuf| path.display().to_string();
    let [first, second] = two_process_streams().map(text);
    let job = JOB.replace("{plugin_host}", &text(built::plugin_host())).replace("{plugin}", &text(built::plugin()));
    let job = job.replace("{first}", &first).replace("{second}", &second);
    let tool = TOOL.replace("{tool}", &text(built::nccl_otf2()));
    let of = |names: &'static [&str], script: &str| {
        names.iter().map(|name| (*name, script.to_owned())).collect::<Vec<(&str, String)>>()
    };
    let mut all = [of(&["nccl-otf2"], &tool), of(LAUNCHERS, LAUNCHER), of(JOBS, &job)].concat();
    // A filter of jq's is tried where there is a jq.
    all.extend(of(READERS, READER).into_iter().filter(|(name, _)| *name != "jq" || !has("jq")));
    for (name, script) in all {
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/bash{script}")).expect("a script");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it can be run");
    }
}
