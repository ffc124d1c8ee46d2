//! Scripts find what is wrong and end as they say; a bench counts what it calls.

use std::fs;

use serde_json::Value;

use crate::{plugin, plugin_host, printed};

fn script(text: &str, environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    fs::write(&file, text).unwrap();
    let output = plugin_host()
        .arg("script")
        .arg(&file)
        .arg("--plugin")
        .arg(plugin("echo"))
        .env("ECHO_OUT", folder.path().join("echo"))
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let echo = fs::read_to_string(folder.path().join("echo")).unwrap_or_default();
    (output.status.code(), format!("{}{echo}", printed(&output)))
}

#[test]
fn a_script_calls_what_it_says() {
    let (status, said) = script(
        "load 5
         init c id=5 name=x ranks=8 rank=7
         expect-context non-NULL
         expect-mask 0xfff
         start a Coll func=AllReduce count=3 @8=0x77
         start b KernelCh parent=a rank=3 channel=200 gpu_ns=0
         state b 22 args=NULL
         state 0xdead 99 bytes=7
         stop NULL
         stop b
         stop b
         parallel 3 {
           repeat 4 {
             start p%t.%i ProxyOp parent=a channel=%i
           }
         }
         finalize c
         start late 0x100000 ctx=c
         start no Coll descriptor=NULL
         start none Coll handle=NULL
         unload
         load 1
         init d
         # The library was closed for good: it counts from the beginning again.
         expect-context same c",
        &[],
    );
    assert_eq!(status, Some(0), "{said}");
    for line in [
        "init v5 5 x 8 7",
        "start 0x2 ctx=0x1000 parent=0x77 rank=0 -> 0x1001",
        "start 0x40 ctx=0x1000 parent=0x1001 rank=3 -> 0x1002",
        "state 0x1002 22 NULL",
        "state 0xdead 99 7",
        "start 0x100000 ",
        "start NULL",
        "init v1 -",
    ] {
        assert!(said.contains(line), "no {line:?} in {said}");
    }
    assert_eq!(said.matches("stop 0x1002").count(), 2);
    assert_eq!(said.matches("start 0x8 ").count(), 12);
}

#[test]
fn problems_and_mistakes_are_named_with_their_line() {
    for (text, environment, status, says) in [
        ("init c\nexpect-mask 0x1", None, 1, "line 2: the mask is 0xffff, not 0x1"),
        ("init c\nstart a Coll\nexpect-handle NULL", None, 1, "expected NULL"),
        ("init c\nstart a Coll", Some(("ECHO_UNWRITTEN", "1")), 1, "unwritten"),
        ("init c\nstart a Coll\nstop a", Some(("ECHO_FAIL", "stop")), 1, "returned 3"),
        ("fork {\nkill 9\n}", None, 1, "Signal(9)"),
        ("fork {\ninit c\nexpect-mask 1\n}", None, 1, "Status(1)"),
        ("thread t {\ninit c\nexpect-mask 1\n}", None, 1, "not 0x1"),
        ("fork status=4 {\n_exit 4\n}", None, 0, "0 problems"),
        ("init c id=5\nexpect-context 0x1000", None, 2, "line 2: "),
        ("load\nstrat x Coll", None, 2, "line 2: \"strat x Coll\" is no command"),
        ("start x Colly", None, 2, "Colly"),
        ("start x Coll count=many", None, 2, "count"),
        ("start x Coll colour=blue", None, 2, "colour"),
        ("start x Coll @300=1", None, 2, "300"),
        ("repeat 3 {\nload", None, 2, "line 1: this { has no }"),
        ("}", None, 2, "without"),
        ("state x Nonsense", None, 2, "Nonsense"),
        ("stop nobody", None, 2, "nobody"),
    ] {
        let (found, said) = script(text, environment.as_slice());
        assert_eq!(found, Some(status), "{text}: {said}");
        assert!(said.contains(says), "{text}: no {says:?} in {said}");
    }
}

#[test]
fn a_script_ends_the_process_as_it_says() {
    for (text, status) in [
        ("init c\nexit 7", Some(7)),
        ("init c\nthread t {\n_exit 8\n}\nsleep 10s", Some(8)),
        // By a signal.
        ("kill 9\nstop x", None),
    ] {
        assert_eq!(script(text, &[]).0, status, "{text}");
    }
}

#[test]
fn a_bench_counts_what_it_calls() {
    let bench = |words: &[&str], name: &str, mask: &str| {
        let mut bench = plugin_host();
        bench.args(["bench", "--iterations", "30"]).args(words).arg(plugin(name)).env("ECHO_MASK", mask);
        bench.output().unwrap()
    };
    let timed = bench(&["--threads", "2"], "empty", "");
    assert!(timed.status.success(), "{}", printed(&timed));
    let report: Value = serde_json::from_slice(&timed.stdout).unwrap();
    let callbacks = report["by_callback"].as_array().unwrap();
    for (name, samples) in
        [("start Coll", 30 * 2), ("start ProxyOp", 30 * 4 * 2), ("state ProxyStep", 30 * 4 * 4 * 3 * 2)]
    {
        assert!(callbacks.iter().any(|line| line["callback"] == name && line["samples"] == samples), "{report}");
    }
    // Group, Coll and their stops.
    let untimed = bench(&["--no-timing", "--table", "4"], "echo", "2");
    assert!(printed(&untimed).contains("30 operations, 120 callbacks"), "{}", printed(&untimed));
    let switched_off = bench(&[], "echo", "0");
    assert_eq!(switched_off.status.code(), Some(2));
    assert!(printed(&switched_off).contains("asks for none"), "{}", printed(&switched_off));
}
