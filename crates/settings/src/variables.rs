//! The table of variables: their values, their meaning for users, and how each is read. Also the templates of directory
//! names, and paths as words of a shell's command.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use crate::config::{
    BackendChoice, Config, CuptiKernels, Finalize, MOST_CHAINED, NvtxChoice, ScorepMode, StepRanges, TopologyChoice,
    Verbosity, choice, event_mask, signal, size,
};
use journal::format::SEGMENT_BYTES;
use journal::part::environment::Level;
use nccl_events::visible;

#[derive(Clone, Copy, Debug)]
pub struct Variable {
    pub name: &'static str,
    pub values: &'static str,
    pub default: &'static str,
    pub doc: &'static str,
    /// Stores a value in the settings; the error names the problem and the value used instead.
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
}

pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "NCCL_OTF2_DIR",
        values: "path",
        default: "`nccl-otf2-<job id>`, without a job id `nccl-otf2-<date>-<time>`",
        doc: "Where the archive goes: one directory for all processes of a job. `%h` host, `%p` process id, `%j` job id, `%r` rank, `%%` a percent sign. For jobs of several processes without a job id, set it (`nccl-otf2 run` does): each process chooses its own time.",
        set: |config, value| {
            config.directory = not_empty(value);
            Ok(())
        },
    },
    Variable {
        name: "NCCL_OTF2_JOB",
        values: "text",
        default: "the id that the batch system or the launcher gives the job, with its step",
        doc: "The job that the process belongs to ([RECORDING.md](RECORDING.md#one-directory-one-job)). The same text makes one archive of processes with different ids, such as steps of a Slurm job. `nccl-otf2 run` sets it if there is no id.",
        // The journal's `JobEnvironment` reads all job ids together.
        set: |_, _| Ok(()),
    },
    Variable {
        name: "NCCL_OTF2_EVENTS",
        values: "preset, kinds or number, comma-separated",
        default: "`standard`",
        doc: "What to record. `light`: GroupApi, CollApi, P2pApi, KernelLaunch, Group, Coll, P2p, CeColl, CeSync, CeBatch. `standard`: light and ProxyOp. `full`: everything. Kinds by NCCL's names in any case, with `-` in front to leave one out (`standard,KernelCh,-ProxyOp`; `-KernelCh` leaves out KernelPhase too), or NCCL's mask (`0x80e`). If it is not set, `NCCL_PROFILE_EVENT_MASK` (a number) is used.",
        set: |config, value| put(&mut config.mask, event_mask(value)),
    },
    Variable {
        name: "NCCL_OTF2_MODE",
        values: "`trace`, `flight` or `off`",
        default: "`trace`",
        doc: "`flight` keeps only the end of the recording ([RECORDING.md](RECORDING.md#keep-only-the-end-flight-recordings)). `off` loads the plugin and records nothing.",
        set: |config, value| {
            let modes = [("trace", (true, false)), ("flight", (true, true)), ("off", (false, false))];
            (config.enabled, config.is_flight) = choice(value, &modes)?;
            Ok(())
        },
    },
    Variable {
        name: "NCCL_OTF2_FLIGHT_SIZE",
        values: "bytes, with K, M, G or T",
        default: "`64M`; with `NCCL_OTF2_FLIGHT_SECONDS`, `NCCL_OTF2_MAX_SIZE`",
        doc: "With `NCCL_OTF2_MODE=flight`: largest disk space of one process, at least 8M. The oldest records are removed first, but each recording thread keeps 1M to 2M, even if that is more.",
        set: flight_size,
    },
    Variable {
        name: "NCCL_OTF2_FLIGHT_SECONDS",
        values: "seconds",
        default: "not limited",
        doc: "With `NCCL_OTF2_MODE=flight`: how long records are kept at least.",
        set: flight_seconds,
    },
    Variable {
        name: "NCCL_OTF2_DUMP_SIGNAL",
        values: "`USR1`, `USR2`, a real-time signal as a number, or `none`",
        default: "`USR2`",
        doc: "The signal that asks for a snapshot of the job ([RECORDING.md](RECORDING.md#snapshots-of-a-running-job)), sent to any of its processes. The program's own handler is called too; the default action, which would end the process, is not taken.",
        set: |config, value| put(&mut config.dump_signal, signal(value)),
    },
    Variable {
        name: "NCCL_OTF2_TOGGLE_SIGNAL",
        values: "`USR1`, `USR2`, a real-time signal as a number, or `none`",
        default: "`none`",
        doc: "The signal that switches the recording of one process off, and on again ([RECORDING.md](RECORDING.md#switch-recording-while-the-job-runs)). Must differ from `NCCL_OTF2_DUMP_SIGNAL`, and treats handlers alike.",
        set: |config, value| put(&mut config.toggle_signal, signal(value)),
    },
    Variable {
        name: "NCCL_OTF2_STEPS",
        values: "`100-200`, `100-`, comma-separated; `NAME`, `NAME:100-200`; or `none`",
        default: "`none`",
        doc: "Steps to record ([RECORDING.md](RECORDING.md#record-only-some-steps)): collectives of the largest communicator, counted from 1; or the program's NVTX ranges with a name, counted from 1 on each thread.",
        set: |config, value| {
            let steps = StepRanges::parse(value);
            put(&mut config.steps, steps.map_err(|reason| format!("{reason}; everything is recorded")))
        },
    },
    Variable {
        name: "NCCL_OTF2_JOURNAL_DIR",
        values: "path (with `%h %p %j %r`)",
        default: "inside `NCCL_OTF2_DIR`",
        doc: "Directory of the journals while the job runs: node-local storage if the output directory is small or slow to map (some network file systems). Only their own node can turn such journals into an archive.",
        set: |config, value| {
            config.journal_directory = not_empty(value);
            Ok(())
        },
    },
    Variable {
        name: "NCCL_OTF2_MAX_SIZE",
        values: "bytes, with K, M, G or T",
        default: "`8G`",
        doc: "Largest disk space for the journal of one process, at least 3M: 1M for each recording thread and for the plugin's own. At the limit recording stops, and the archive counts what is missing.",
        set: max_size,
    },
    Variable {
        name: "NCCL_OTF2_FINALIZE",
        values: "`inline` or `offline`",
        default: "`inline`",
        doc: "`inline` writes the archive at the last `ncclCommDestroy` or at exit; `offline` leaves that to `nccl-otf2 finalize`.",
        set: |config, value| put(&mut config.finalize, choice(value, Finalize::CHOICES)),
    },
    Variable {
        name: "NCCL_OTF2_FINALIZE_TIMEOUT",
        values: "seconds",
        default: "`60`",
        doc: "Longest time for writing inline. After that the journal stays, and the closing line names the command that finishes the work.",
        set: |config, value| {
            let seconds = value.parse().map(Duration::from_secs);
            let seconds = seconds.map_err(|_| "not a number of seconds; 60 is used".to_owned());
            put(&mut config.finalize_timeout, seconds)
        },
    },
    Variable {
        name: "NCCL_OTF2_KEEP_JOURNAL",
        values: "`0` or `1`",
        default: "`0`",
        doc: "Keep the journal after it was written, so that another version can write it again. A damaged journal is always kept.",
        set: |config, value| put(&mut config.keep_journal, choice(value, &[("0", false), ("1", true)])),
    },
    Variable {
        name: "NCCL_OTF2_LEVEL",
        values: "`light`, `standard` or `full`",
        default: "`full`",
        doc: "How much of the recording goes into the archive, with the sets of `NCCL_OTF2_EVENTS`. The rest is counted, and still determines when operations ran. `nccl-otf2 finalize --level` changes it later if the journals were kept.",
        set: |config, value| put(&mut config.level, choice(value, Level::CHOICES)),
    },
    Variable {
        name: "NCCL_OTF2_GPU",
        values: "`auto`, `cupti`, `events` or `off`",
        default: "`auto`",
        doc: "How GPU work of NCCL is timed ([GPU.md](GPU.md)): `cupti` by CUPTI's records, `events` by CUDA events, which disturb no other tool, `auto` by CUPTI unless another tool may use it. `off`: the plugin calls nothing of CUDA's, and the trace does not name the GPUs.",
        set: |config, value| put(&mut config.gpu.backend, choice(value, BackendChoice::CHOICES)),
    },
    Variable {
        name: "NCCL_OTF2_CUPTI_KERNELS",
        values: "`nccl` or `all`",
        default: "`nccl`",
        doc: "With CUPTI: record NCCL's kernels, or all of the process. CUDA events, which `auto` uses beside PyTorch, time NCCL's only: `all` then needs `NCCL_OTF2_GPU=cupti` too, as a warning says.",
        set: |config, value| put(&mut config.gpu.kernels, choice(value, CuptiKernels::CHOICES)),
    },
    Variable {
        name: "NCCL_OTF2_CUPTI_LIB",
        values: "path",
        default: "the library that is loaded already, else the one that fits the CUDA runtime",
        doc: "With CUPTI: the file of CUPTI's library.",
        set: |config, value| {
            config.gpu.cupti_library = not_empty(value);
            Ok(())
        },
    },
    Variable {
        name: "NCCL_OTF2_SCOREP",
        values: "`auto`, `on`, `calls` or `off`",
        default: "`auto`",
        doc: "What Score-P is shown if it measures the same process ([SCOREP.md](SCOREP.md#7-live)). `on`: calls and operations. `calls`: calls only, on the locations of threads, which Scalasca's trace analyser reads. Both warn if that is impossible. `auto`: `calls` if Scalasca drives the measurement, else `on`, without warnings.",
        set: |config, value| put(&mut config.scorep, choice(value, ScorepMode::CHOICES)),
    },
    Variable {
        name: "NCCL_OTF2_NVTX",
        values: "`auto`, `nccl`, `all` or `off`",
        default: "`auto`",
        doc: "Which NVTX ranges are recorded ([GUIDE.md](GUIDE.md#which-part-of-my-program)) if `NVTX_INJECTION64_PATH` is the plugin's library, as `nccl-otf2 run` sets it. `nccl`: NCCL's own, which show calls that its profiler interface lacks. `auto`: also the program's, without those of CUDA's libraries (cuBLAS, cuDNN, CCCL, TensorRT …). `all`: every domain.",
        set: |config, value| put(&mut config.nvtx, choice(value, NvtxChoice::CHOICES)),
    },
    Variable {
        name: "NCCL_OTF2_TOPOLOGY",
        values: "`auto`, `on` or `off`",
        default: "`auto`",
        doc: "Whether `nccl-otf2 run` has NCCL write its topology ([RECORDING.md](RECORDING.md#topology)). `auto`: not where NVLink connects hosts. No effect without `run`.",
        set: |config, value| put(&mut config.topology, choice(value, TopologyChoice::CHOICES)),
    },
    Variable {
        name: "NCCL_OTF2_CHAIN",
        values: "names or paths, comma-separated, 4 at most",
        default: "none",
        doc: "Other profiler plugins to load behind this one ([RECORDING.md](RECORDING.md#together-with-other-profiler-plugins)). A name is searched as `libnccl-profiler-NAME.so`, then unchanged; with a `/` it is a path.",
        set: chained,
    },
    Variable {
        name: "NCCL_OTF2_VERBOSITY",
        values: "`quiet`, `normal` or `verbose`",
        default: "`normal`",
        doc: "`normal`: one line at the start and one at the end in NCCL's log (`NCCL_DEBUG=INFO` shows them); warnings also on stderr. `quiet`: warnings only. `verbose`: both lines also on stderr, with the decisions taken. Before NCCL 2.27, which gives plugins no log, only `verbose` shows the lines.",
        set: |config, value| put(&mut config.verbosity, choice(value, Verbosity::CHOICES)),
    },
];

fn put<T>(setting: &mut T, value: Result<T, String>) -> Result<(), String> {
    *setting = value?;
    Ok(())
}

fn chained(config: &mut Config, value: &str) -> Result<(), String> {
    config.chain = value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if config.chain.len() > MOST_CHAINED {
        let left_out = config.chain.split_off(MOST_CHAINED).join(", ");
        return Err(format!("more than {MOST_CHAINED} plugins; left out: {left_out}"));
    }
    Ok(())
}

fn not_empty(value: &str) -> Option<String> {
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

/// The smallest useful flight recording: a few threads, each with one segment in use and one prepared.
const SMALLEST_FLIGHT_BYTES: u64 = 8 * SEGMENT_BYTES as u64;

/// The smallest useful journal: one segment each for the maintenance, a calling and a proxy thread.
const SMALLEST_BYTES: u64 = 3 * SEGMENT_BYTES as u64;

fn flight_size(config: &mut Config, value: &str) -> Result<(), String> {
    let bytes = size(value).map_err(|_| "not a size like 64M or 1G; 64M is used".to_owned())?;
    config.flight_bytes = Some(bytes.max(SMALLEST_FLIGHT_BYTES));
    if bytes < SMALLEST_FLIGHT_BYTES {
        let smallest = SMALLEST_FLIGHT_BYTES >> 20;
        return Err(format!("less than {smallest}M, which would keep almost no old records; {smallest}M is used"));
    }
    Ok(())
}

fn flight_seconds(config: &mut Config, value: &str) -> Result<(), String> {
    let seconds = value.parse().ok().filter(|&seconds: &u64| seconds > 0);
    let seconds = seconds.ok_or("not a number of seconds; only the size counts")?;
    config.flight_time = Some(Duration::from_secs(seconds));
    Ok(())
}

/// A limit that is too small becomes the smallest useful limit, not the default, because the user asked for little.
fn max_size(config: &mut Config, value: &str) -> Result<(), String> {
    let bytes = size(value)?;
    config.max_bytes = bytes.max(SMALLEST_BYTES);
    if bytes < SMALLEST_BYTES {
        let smallest = SMALLEST_BYTES >> 20;
        return Err(format!(
            "less than {smallest}M, which records almost nothing; {smallest}M is used: set 1M for each thread that \
            calls NCCL or belongs to NCCL, and 1M more, or record fewer events (NCCL_OTF2_EVENTS)"
        ));
    }
    Ok(())
}

#[derive(Clone, Debug)]
pub struct PathValues {
    pub host: String,
    pub process_id: u32,
    pub job: Option<String>,
    pub rank: Option<u32>,
}

/// Fills in a template. An unknown value becomes `unknown`; `/` in a value becomes `_`.
pub fn expand(template: &str, values: &PathValues) -> String {
    let clean = |text: &str| text.replace(['/', '\0'], "_");
    let unknown = || "unknown".to_owned();
    let mut result = String::new();
    let mut letters = template.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            result.push(letter);
            continue;
        }
        match letters.next() {
            Some('h') => result.push_str(&clean(&values.host)),
            Some('p') => result.push_str(&values.process_id.to_string()),
            Some('j') => result.push_str(&values.job.as_deref().map_or_else(unknown, clean)),
            Some('r') => result.push_str(&values.rank.map_or_else(unknown, |rank| rank.to_string())),
            Some('%') | None => result.push('%'),
            Some(other) => result.extend(['%', other]),
        }
    }
    result
}

/// A path as a word of a shell's command, so that the command can be copied.
pub fn shell_word(path: &Path) -> String {
    // A tool takes what begins with `-` for an option.
    let path = if path.as_os_str().as_bytes().starts_with(b"-") { &Path::new(".").join(path) } else { path };
    let is_plain = |character: char| character.is_alphanumeric() || "/._-+=:,@%".contains(character);
    match path.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(is_plain) => text.to_owned(),
        Some(text) if visible(text) == text => format!("'{}'", text.replace('\'', r"'\''")),
        _ => escaped(path),
    }
}

/// Control characters and bytes that are not UTF-8, as only bash and ksh read them.
fn escaped(path: &Path) -> String {
    let mut word = "$'".to_owned();
    let escape = |word: &mut String, bytes: &[u8]| bytes.iter().for_each(|byte| *word += &format!(r"\x{byte:02x}"));
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            let bytes = letter.encode_utf8(&mut [0; 4]).to_owned();
            match letter {
                '\n' => word += r"\n",
                '\\' | '\'' => word.extend(['\\', letter]),
                _ if visible(&bytes) == bytes => word.push(letter),
                _ => escape(&mut word, bytes.as_bytes()),
            }
        }
        escape(&mut word, chunk.invalid());
    }
    word + "'"
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_shell_reads_the_path_again() {
        for path in ["/tmp/trace-7", "sp ace/t", "it's", "$HOME;", "", "träce"] {
            let command = format!("printf %s {}", shell_word(Path::new(path)));
            let shell = std::process::Command::new("sh").args(["-c", &command]).output().expect("sh runs");
            assert_eq!(String::from_utf8_lossy(&shell.stdout), path);
        }
        let bytes: [&[u8]; 4] = [b"a\nb'c\\d", b"\x1b[31mred", b"not\xffUTF-8", "\u{202e}gnp".as_bytes()];
        for path in bytes.map(OsStr::from_bytes) {
            let word = shell_word(Path::new(path));
            assert_eq!(visible(&word), word, "the terminal shows it as it is");
            let shell = std::process::Command::new("bash").args(["-c", &format!("printf %s {word}")]).output();
            assert_eq!(OsStr::from_bytes(&shell.expect("bash runs").stdout), path);
        }
        assert_eq!(shell_word(Path::new("-dash")), "./-dash");
    }
}
