//! The tables of `export --format parquet`: row by row against the archive, and the questions of docs/EXPORTS.md, asked
//! of the programs that they are written for, against `stats`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use whole_plugin::built;
use whole_plugin::jobs::ranges;
use whole_plugin::machine::{four_gpu_stream, python, two_process_streams};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;
use whole_plugin::synthetic::{self, Disturbance, Job, play};

fn tool(scratch: &Scratch, arguments: &[&str]) -> Value {
    let mut tool = scratch.plain(built::nccl_otf2());
    tool.args(arguments).arg("--json");
    serde_json::from_str(&run(&mut tool).with_code(0).stdout).expect("JSON")
}

/// Exports; gives what the tool says.
fn export(scratch: &Scratch, anchor: &Path, out: &str, more: &[&str]) -> Value {
    let anchor = anchor.to_str().expect("a path");
    tool(scratch, &[&["export", "--format", "parquet", anchor, "-o", out], more].concat())
}

/// Compares all rows with the events of the archive; gives how many there are of each table.
fn compared(scratch: &Scratch, python: &Path, anchor: &Path) -> Value {
    let exported = export(scratch, anchor, "tables", &[]);
    let mut reference = scratch.plain(python);
    reference.arg("-B").arg(built::root().join("tests/support/tables.py")).arg(anchor).arg("tables");
    let counts: Value = serde_json::from_str(&run(&mut reference).with_code(0).stdout).expect("JSON");
    let rows: u64 = counts.as_object().expect("counts").values().filter_map(Value::as_u64).sum();
    assert!(exported["events"].as_u64().expect("a number") > rows, "instances and ranks count, too: {exported}");
    counts
}

#[test]
fn every_row_is_what_the_archive_has() {
    let Some(python) = python() else { return };
    let two = two_process_streams().to_vec();
    for (streams, operations, steps) in
        [(Some(two), 24, true), (four_gpu_stream().map(|stream| vec![stream]), 4, false)]
    {
        let Some(streams) = streams else { continue };
        let scratch = Scratch::new();
        let _replayed = run(&mut scratch.replay(&streams)).with_code(0);
        let counts = compared(&scratch, &python, scratch.archive().anchor());
        assert_eq!(counts["operations"], operations, "{counts}");
        assert!(counts["calls"].as_u64() > Some(0), "{counts}");
        assert_eq!(counts["steps"].as_u64() > Some(0), steps, "{counts}");
    }
    let scratch = Scratch::new();
    let job = Job { instances: 20, has_kernels: true, error_ns: Some(Some(500)), ..Job::healthy(1) };
    let anchor = synthetic::write(&scratch.out(), &job, &play(&job));
    let counts = compared(&scratch, &python, &anchor);
    let expected = json!({"calls": 0, "ranges": 0, "operations": 160, "transfers": 640, "kernels": 320, "steps": 2560});
    assert_eq!(counts, expected);
}

/// What each rank of `tests/nvtx/job.py` does in its ranges, and how often.
const PHASES: [(&str, u64, u64); 8] = [
    ("handed over", 1, 0),
    ("left open", 1, 0),
    ("whole job", 1, 0),
    ("whole job > setup", 1, 0),
    ("whole job > step #", 3, 0),
    ("whole job > step # > backward", 3, 3),
    ("whole job > step # > forward", 3, 0),
    ("worker", 4, 0),
];

#[test]
fn ranges_of_the_program_are_a_table_and_a_column() {
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let Some(()) = ranges(&scratch, &["steps", "threads", "empty"]) else { return };
    let counts = compared(&scratch, &python, scratch.archive().anchor());
    let each: u64 = PHASES.iter().map(|(_, times, _)| times).sum();
    assert_eq!(counts["ranges"], 2 * (each + 1), "with a mark: {counts}");
    let regions = scratch.archive().regions();
    let steps = regions.iter().filter(|region| region.name == "step #").map(|region| region.end_ns - region.start_ns);
    for program in ["duckdb", "spark"] {
        let [rows] = answers(&scratch, &python, program, "phases");
        let (mut phases, mut steps_ns) = (BTreeMap::new(), 0);
        for row in &rows {
            let path = row["path"].as_str().expect("a path");
            let operations = if row["operations"].is_null() { 0 } else { number(row, "operations") };
            phases.insert((number(row, "job_rank"), path), (number(row, "times"), operations));
            steps_ns += if path == "whole job > step #" { number(row, "phase_ns") } else { 0 };
        }
        let expected = [0, 1].into_iter().flat_map(|rank| PHASES.map(|(path, times, of)| ((rank, path), (times, of))));
        assert_eq!(phases, expected.collect(), "{program}");
        assert_eq!(steps_ns, steps.clone().sum::<u64>(), "{program}");
    }
    let _exported = export(&scratch, scratch.archive().anchor(), "rank", &["--rank", "1"]);
    assert_eq!(counted(&scratch, &python, "ranges", "rank")["all are back"], 1);
    assert_eq!(counted(&scratch, &python, "ranges", "rank")["handed over"], 1, "any thread of the process ends it");
}

/// Up to 2.27 only NVTX shows calls.
#[test]
fn calls_of_other_functions_are_left_out() {
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let words = ["--procs", "2", "--threads", "1", "--rounds", "2", "--ops", "allreduce,broadcast"];
    let Some(mut job) = scratch.run_nccl("2.27.7", &[], &words) else { return };
    let _ran = run(&mut job).with_code(0);
    let calls = |name: &str, options: &[&str]| {
        let _exported = export(&scratch, scratch.archive().anchor(), name, options);
        let calls = counted(&scratch, &python, "calls", name);
        ["ncclAllReduce", "ncclBroadcast"].map(|function| calls[function].as_u64().unwrap_or(0))
    };
    let [all_reduces, broadcasts] = calls("all", &[]);
    assert!(broadcasts > 0, "{broadcasts}");
    assert_eq!(calls("some", &["--function", "AllReduce"]), [all_reduces, 0]);
}

#[test]
fn filters_leave_the_rest_out() {
    let scratch = Scratch::new();
    let job = Job { instances: 20, ..Job::healthy(2) };
    let anchor = synthetic::write(&scratch.out(), &job, &play(&job));
    let all = export(&scratch, &anchor, "all", &[]);
    assert_eq!(all["events"], 20 + 8 + 160 + 640 + 2560);
    let rank_export = export(&scratch, &anchor, "rank", &["--rank", "3"]);
    assert_eq!(rank_export["events"], 20 + 8 + (160 + 640 + 2560) / 8, "instances and ranks are those of all");
    let files: Vec<&str> = rank_export["files"].as_array().expect("files").iter().filter_map(Value::as_str).collect();
    let steps = "rank/table=steps/host=host0/process=3/steps.parquet";
    assert!(files.len() == 5 && files.contains(&steps), "{files:?}");
    assert_eq!(export(&scratch, &anchor, "comm", &["--comm", "world"])["events"], all["events"]);
    let part = export(&scratch, &anchor, "part", &["--from", "2ms", "--to", "4ms"])["events"].as_u64();
    assert!((Some(100)..all["events"].as_u64()).contains(&part), "{part:?}");
}

/// Each table alone is that of all tables; nothing else is written, nor said to be left out.
#[test]
fn tables_are_written_alone() {
    let scratch = Scratch::new();
    let _replayed = run(&mut scratch.replay(&two_process_streams())).with_code(0);
    let anchor = scratch.archive().anchor().to_owned();
    let all = export(&scratch, &anchor, "all", &[]);
    let files = |exported: &Value, out: &str| -> Vec<String> {
        let files = list(exported, "files").iter().filter_map(Value::as_str);
        files.map(|file| file.trim_start_matches(out).to_owned()).collect()
    };
    assert!(!list(&all, "left_out").is_empty(), "{all}");
    let tables: BTreeSet<String> =
        files(&all, "all/table=").iter().filter_map(|file| Some(file.split_once('/')?.0.to_owned())).collect();
    assert!(tables.len() >= 6, "{tables:?}");
    let mut events = 0;
    for table in &tables {
        let alone = export(&scratch, &anchor, table, &["--table", table]);
        let mut wanted = files(&all, "all");
        wanted.retain(|file| file.starts_with(&format!("/table={table}/")));
        assert_eq!(files(&alone, table), wanted);
        assert!(list(&alone, "left_out").is_empty(), "{alone}");
        for file in wanted {
            let [one, other] = [table.as_str(), "all"].map(|out| scratch.path().join(format!("{out}{file}")));
            assert_eq!(fs::read(one).expect("a file"), fs::read(other).expect("a file"), "{file}");
        }
        events += alone["events"].as_u64().expect("a number");
    }
    assert_eq!(all["events"], events);
    let anchor = anchor.to_str().expect("a path");
    for (format, table, why) in [
        ("parquet", "kernels", "no row"),
        ("kineto", "calls", "--table: only"),
        ("parquet", "steps,x", "possible values"),
    ] {
        let words = ["export", "--format", format, anchor, "-o", "none", "--table", table];
        let ended = run(&mut scratch.tool(&words)).with_code(2);
        assert!(ended.stderr.contains(why), "{ended}");
    }
}

/// How many rows of a table have which name or function.
fn counted(scratch: &Scratch, python: &Path, table: &str, out: &str) -> Value {
    const COUNT: &str = "import collections, json, sys, pyarrow.dataset as dataset
rows = dataset.dataset(f'{sys.argv[1]}/table={sys.argv[2]}').to_table().to_pylist()
print(json.dumps(collections.Counter(row.get('function') or row['name'] for row in rows)))";
    let mut reader = scratch.plain(python);
    serde_json::from_str(&run(reader.args(["-c", COUNT, out, table])).with_code(0).stdout).expect("JSON")
}

/// Asks a program questions of the page.
fn answers<const N: usize>(scratch: &Scratch, python: &Path, program: &str, questions: &str) -> [Vec<Value>; N] {
    let mut ask = scratch.plain(python);
    ask.arg("-B").arg(built::root().join("tests/support/questions.py"));
    ask.arg(built::root().join("docs/EXPORTS.md")).args([program, questions]);
    // Spark asks for the name of the host, which has no address on every machine.
    ask.env("SPARK_LOCAL_IP", "127.0.0.1");
    // It runs for a few seconds: code that is compiled with care does not pay, nor do jobs that list folders.
    let settings = "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=4 \
                    --conf spark.sql.sources.parallelPartitionDiscovery.threshold=1000 \
                    --driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell";
    ask.env("PYSPARK_SUBMIT_ARGS", settings);
    let printed = run(&mut ask).with_code(0).stdout;
    let line = printed.lines().last().unwrap_or_default();
    let answers: Vec<Vec<Value>> =
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{program}: {error}: {printed}"));
    answers.try_into().expect("an answer to each question")
}

fn number(row: &Value, column: &str) -> u64 {
    let number = &row[column];
    // Columns that have nulls are fractions in pandas.
    let whole = number.as_f64().filter(|value| value.fract() == 0.0).map(|value| value.to_string());
    number.as_u64().or_else(|| whole?.parse().ok()).unwrap_or_else(|| panic!("no {column} in {row}"))
}

fn list<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report[name].as_array().expect("a list")
}

#[test]
fn three_programs_answer_as_stats_does() {
    let Some(python) = python() else { return };
    let wrong = Disturbance::LateOnce { rank: 77, at: 20, ns: 20_000_000 };
    let job = Job { ranks: 96, channels: 1, instances: 64, wrong, error_ns: Some(Some(500)), ..Job::healthy(16) };
    let ranks = play(&job);
    let scratch = Scratch::new();
    let anchor: PathBuf = synthetic::write(&scratch.out(), &job, &ranks);
    export(&scratch, &anchor, "tables", &[]);
    let report = tool(&scratch, &["stats", anchor.to_str().expect("a path")]);

    let elapsed = (0..ranks[0].len()).map(|at| {
        let first_ns = ranks.iter().map(|operations| operations[at].start_ns).min().expect("ranks");
        (ranks[0][at].stop_ns - first_ns, first_ns, at as u64, ranks[0][at].bytes)
    });
    let mut slowest: Vec<(u64, u64, u64, u64)> = elapsed.collect();
    slowest.sort_unstable_by(|a, b| b.cmp(a));
    slowest.truncate(10);
    let anomaly = &report["anomalies"][0];
    let anomaly_key = (number(anomaly, "sequence"), number(anomaly, "start_ns"), number(anomaly, "end_ns"));
    assert_eq!((slowest[0].2, slowest[0].1, slowest[0].1 + slowest[0].0), anomaly_key);

    let rank_numbers = |rank: &Value| (number(rank, "last"), number(rank, "caused_ns"));
    let last: BTreeMap<u64, (u64, u64)> = (0..).zip(list(&report, "ranks").iter().map(rank_numbers)).collect();
    let last: BTreeMap<u64, (u64, u64)> = last.into_iter().filter(|(_, (times, _))| *times > 0).collect();
    assert!(last.len() > 10 && last[&77].1 > 95 * 19_000_000, "{last:?}");

    let pair_numbers = |pair: &Value| {
        let ends = (number(pair, "from"), number(pair, "peer"));
        let host = report["ranks"][usize::try_from(ends.0).expect("an index")]["host"].clone();
        (ends, (host, [number(pair, "steps"), number(pair, "bytes"), number(&pair["waits"], "send_ns")]))
    };
    let pairs: BTreeMap<(u64, u64), (Value, [u64; 3])> = list(&report, "pairs").iter().map(pair_numbers).collect();
    assert_eq!(pairs.len(), 96);

    for program in ["duckdb", "dask", "spark"] {
        let [slowest_rows, last_rows, pair_rows] = answers(&scratch, &python, program, "sql");
        let found: Vec<(u64, u64, u64, u64)> = slowest_rows
            .iter()
            .map(|row| {
                assert_eq!((row["function"].as_str(), number(row, "ranks")), (Some("ncclAllReduce"), 96), "{program}");
                (number(row, "elapsed_ns"), number(row, "first_ns"), number(row, "sequence"), number(row, "bytes"))
            })
            .collect();
        assert_eq!(found, slowest, "{program}");
        let found = last_rows
            .iter()
            .map(|row| (number(row, "last_job_rank"), (number(row, "times"), number(row, "waited_ns"))));
        assert_eq!(found.collect::<BTreeMap<u64, (u64, u64)>>(), last, "{program}");
        let found = pair_rows.iter().map(|row| {
            let what = [number(row, "steps"), number(row, "bytes"), number(row, "wait_ns")];
            ((number(row, "sender"), number(row, "receiver")), (row["host"].clone(), what))
        });
        assert_eq!(found.collect::<BTreeMap<(u64, u64), (Value, [u64; 3])>>(), pairs, "{program}");
    }
}
