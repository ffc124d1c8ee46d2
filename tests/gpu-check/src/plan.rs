//! All checks, in the order they are run: what everything else stands on first, what takes long last.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::bundle::Bundle;
use crate::checks::{self, Shape};
use crate::machine::Machine;
use crate::options::Options;
use crate::outcome::{Facts, Outcome};
use crate::report::{self, Row};

/// One question.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    /// Its number in the list of docs/GPU.md.
    pub(crate) number: Option<u8>,
    /// What is known when it was answered.
    pub(crate) settles: &'static str,
    /// Longest time, in seconds.
    limit_s: u64,
    /// The doubles can answer it, as far as they go.
    on_doubles: bool,
    run: fn(&Context<'_>) -> Outcome,
}

/// What a check has to work with.
pub(crate) struct Context<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) bundle: &'a Bundle,
    pub(crate) is_fake: bool,
    /// A folder of the check's own.
    pub(crate) work: PathBuf,
    pub(crate) until: Instant,
    /// How several ranks run on this machine; found out by the first that asks.
    shape: &'a OnceCell<Option<Shape>>,
}

impl Context<'_> {
    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// How several ranks run here, if they do.
    pub(crate) fn shape(&self) -> Option<&Shape> {
        self.shape.get_or_init(|| checks::find_shape(self)).as_ref()
    }
}

macro_rules! checks {
    ($($name:literal $number:expr, $limit_s:literal s, $on_doubles:expr, $run:expr, $settles:literal;)*) => {
        /// All of them.
        pub(crate) const CHECKS: &[Check] = &[$(Check {
            name: $name,
            number: $number,
            settles: $settles,
            limit_s: $limit_s,
            on_doubles: $on_doubles,
            run: $run,
        }),*];
    };
}

const DOUBLES: bool = true;
const GPU_ONLY: bool = false;

checks! {
    "device" None, 30 s, GPU_ONLY, |c| checks::probe(c, "device"),
        "the driver answers; its version, the GPU's name and memory";
    "one-rank" None, 60 s, DOUBLES, checks::one_rank,
        "a communicator of one rank: results, what NCCL tells the plugin, the archive";
    "several-ranks" None, 90 s, DOUBLES, checks::several_ranks,
        "how NCCL lets several ranks use this machine's GPUs, and that all operations are right under the plugin";
    "function-ids" Some(1), 30 s, DOUBLES, checks::function_ids,
        "external ids come with the records of the four launch functions alone (CUDA 12.5 on), in both families";
    "nccl-kernels" Some(2), 60 s, DOUBLES, checks::nccl_kernels,
        "each launch of NCCL's has one kernel record and one external id; names of its kernels";
    "runtime-launch" Some(3), 30 s, GPU_ONLY, |c| checks::probe(c, "runtime-launch"),
        "whether cudaLaunchKernel makes a record of cuLaunchKernel too, and with which correlation id";
    "record-layout" Some(4), 30 s, GPU_ONLY, |c| checks::probe(c, "layout"),
        "grid, block, shared memory, stream, device and name are where the table says";
    "stream-ids" Some(5), 30 s, GPU_ONLY, |c| checks::probe(c, "streams"),
        "how CUPTI's stream number relates to cuStreamGetId and cuptiGetStreamIdEx";
    "device-order" Some(6), 30 s, GPU_ONLY, checks::device_order,
        "CUPTI's device number under CUDA_VISIBLE_DEVICES, and on MIG";
    "gpu-clock" Some(7), 60 s, GPU_ONLY, |c| checks::probe(c, "gpu-clock"),
        "steps of the GPU's timer, and that it lies between a kernel's start and end by CUPTI";
    "kernel-channels" Some(7), 60 s, DOUBLES, checks::kernel_channels,
        "how NCCL's stamps of the GPU's timer fit between the starts and ends of kernels by CUPTI";
    "cupti-clock" Some(8), 30 s, DOUBLES, |c| checks::probe(c, "clock"),
        "CUPTI's clock against the system's: offset and how long a reading takes";
    "two-tools" Some(9), 60 s, DOUBLES, checks::two_tools,
        "what a second user of CUPTI gets, in each order of the two families";
    "torch-profiler" Some(9), 150 s, GPU_ONLY, checks::torch_profiler,
        "whether PyTorch's profiler sees its kernels beside each way of the plugin, begun before it and after";
    "nsys" Some(9), 60 s, GPU_ONLY, checks::nsys,
        "which variables Nsight Systems sets, and what the plugin decides under it";
    "events-way" None, 60 s, DOUBLES, checks::events_way,
        "launches timed by CUDA events: all of them, and nothing refused";
    "ends" Some(11), 120 s, DOUBLES, checks::ends,
        "communicators destroyed, aborted, in mixed order or not at all, with CUPTI on: each ends and has its archive";
    "graph-nodes" Some(12), 30 s, GPU_ONLY, |c| checks::probe(c, "graph"),
        "1000 replays of a graph: whether node ids stay, and sourceGraphNodeId (CUDA 13.4 on)";
    "nccl-graphs" Some(12), 60 s, DOUBLES, checks::nccl_graphs,
        "kernels of NCCL's in replays are recognised";
    "copy-engine" Some(13), 30 s, GPU_ONLY, checks::copy_engine,
        "which functions copy-engine collectives call, and the copy counts of batches";
    "fork" Some(14), 30 s, DOUBLES, |c| checks::probe(c, "fork"),
        "a child that is forked while CUPTI records: it ends, and the parent's records go on";
    "refused-buffer" Some(15), 30 s, DOUBLES, checks::refused_buffer,
        "whether CUPTI survives a refused buffer (it is refused from CUDA 12.9 on only)";
    "small-buffers" Some(16), 30 s, DOUBLES, |c| checks::probe(c, "small-buffers"),
        "what is lost, and counted as lost, with buffers of 64 KiB";
    "several-gpus" Some(17), 60 s, GPU_ONLY, checks::several_gpus,
        "several GPUs in one process, and under MPS";
    "kernel-storm" Some(10), 60 s, DOUBLES, |c| checks::probe(c, "storm"),
        "what CUPTI costs per empty kernel, and in device memory";
    "callbacks-alone" Some(10), 60 s, DOUBLES, checks::callbacks_alone,
        "what a callback costs on this machine's cores, with no GPU in it";
    "cupti-cost" Some(10), 100 s, DOUBLES, checks::cupti_cost,
        "a small all-reduce with GPU work untimed, by events, by CUPTI";
    "callback-cost" Some(10), 160 s, DOUBLES, checks::callback_cost,
        "a small all-reduce without a plugin, with an empty one, with ours: light, standard, full";
}

/// Runs what is wanted; whether no check failed.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let began = Instant::now();
    let ends = began + options.limit;
    let bundle = Bundle::here()?;
    let work = Work::new(options)?;
    let wanted = wanted(options.only.as_deref())?;
    let machine = Machine::look(options, &bundle, work.path());
    if machine.gpus == 0 && !options.fake_gpu {
        return Err(
            "this machine shows no GPU (/dev/nvidia0); --fake-gpu tries the checks themselves"
                .to_owned(),
        );
    }
    let mut about = machine.facts();
    about.insert("fake_gpu".to_owned(), json!(options.fake_gpu));
    about.insert("began_unix_s".to_owned(), json!(unix_s()));
    for (name, value) in bundle.description() {
        about.insert(format!("bundle_{name}"), json!(value));
    }
    say(&about);
    let shape = OnceCell::new();
    let mut rows: Vec<Row> = Vec::new();
    for check in wanted {
        let started = Instant::now();
        let context = Context {
            machine: &machine,
            bundle: &bundle,
            is_fake: options.fake_gpu,
            work: work.path().join(check.name),
            until: ends.min(started + Duration::from_secs(check.limit_s)),
            shape: &shape,
        };
        let row = Row {
            name: check.name,
            number: check.number,
            outcome: one(check, &context),
            seconds: started.elapsed().as_secs_f64(),
        };
        println!("{}", report::line(&row));
        rows.push(row);
        // After each: what is known is there even where the machine goes away.
        write(&options.json, &about, &rows)?;
    }
    println!(
        "\n{}, {:.0} s; facts in {}",
        report::summary(&rows),
        began.elapsed().as_secs_f64(),
        options.json.display()
    );
    Ok(rows.iter().all(|row| row.outcome.word() != "failed"))
}

fn one(check: &Check, context: &Context<'_>) -> Outcome {
    if context.is_fake && !check.on_doubles {
        return Outcome::not_here("needs a GPU");
    }
    if context.left() < Duration::from_secs(2) {
        return Outcome::not_here("no time was left (--limit)");
    }
    if let Err(error) = std::fs::create_dir_all(&context.work) {
        return Outcome::failed(format!("cannot create {}: {error}", context.work.display()));
    }
    let outcome = (check.run)(context);
    // Recordings of a million calls are large.
    let _ = std::fs::remove_dir_all(&context.work);
    outcome
}

fn wanted(only: Option<&[String]>) -> Result<Vec<&'static Check>, String> {
    let Some(only) = only else {
        return Ok(CHECKS.iter().collect());
    };
    let is = |check: &Check, word: &str| {
        check.name == word
            || check
                .number
                .is_some_and(|number| number.to_string() == word)
    };
    for word in only {
        if !CHECKS.iter().any(|check| is(check, word)) {
            return Err(format!("--only {word}: there is no such check (--list)"));
        }
    }
    let is_wanted = |check: &&Check| only.iter().any(|word| is(check, word));
    Ok(CHECKS.iter().filter(is_wanted).collect())
}

fn say(about: &Facts) {
    for (name, value) in about {
        println!(
            "{name}: {}",
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        );
    }
    println!();
}

fn write(path: &Path, about: &Facts, rows: &[Row]) -> Result<(), String> {
    let text = format!("{:#}\n", report::json(about, rows));
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn unix_s() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// Where the checks have their files.
struct Work {
    folder: PathBuf,
    /// A folder that the user named stays.
    is_ours: bool,
}

impl Work {
    fn new(options: &Options) -> Result<Self, String> {
        let ours = || std::env::temp_dir().join(format!("gpu-check-{}", std::process::id()));
        let folder = options.work.clone().unwrap_or_else(ours);
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        Ok(Self {
            folder,
            is_ours: options.work.is_none(),
        })
    }

    fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if self.is_ours {
            // What is left is only disk space.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_list_has_a_check() {
        for number in 1..=17 {
            assert!(
                CHECKS.iter().any(|check| check.number == Some(number)),
                "{number}"
            );
        }
    }

    #[test]
    fn checks_are_named_or_numbered() {
        let names = |only: &str| -> Vec<&str> {
            let only: Vec<String> = only.split(',').map(str::to_owned).collect();
            let wanted = wanted(Some(&only)).unwrap();
            wanted.iter().map(|check| check.name).collect()
        };
        assert_eq!(names("device,1"), ["device", "function-ids"]);
        assert_eq!(names("12"), ["graph-nodes", "nccl-graphs"]);
        assert!(wanted(Some(&["18".to_owned()])).is_err());
    }
}
