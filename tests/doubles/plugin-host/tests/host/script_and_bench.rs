//! Scripts find what is wrong and end as they say; a bench counts what it calls.

use std::fs;

use serde_json::Value;

use crate::{plugin, plugin_host, said};

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
    (output.status.code(), format!("{}{echo}", said(&output)))
}

#[test]
fn a_script_calls_what_it_says() {
    let (status, said) = script("init c id=5 name=x ranks=8 rank=7\nexpect-context 0x1000\n", &[]);
    assert_eq!(status, Some(2), "{said}");
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
fn problems_are_found() {
    for (text, environment, says) in [
        ("init c\nexpect-mask 0x1", ("", ""), "the mask is 0xffff, not 0x1"),
        ("init c\nstart a Coll\nexpect-handle NULL", ("", ""), "expected Null"),
        ("init c\nstart a Coll", ("ECHO_UNWRITTEN", "1"), "unwritten"),
        ("init c\nstart a Coll\nstop a", ("ECHO_FAIL", "stop"), "returned 3"),
        ("fork {\nkill 9\n}", ("", ""), "Signal(9)"),
        ("fork {\ninit c\nexpect-mask 1\n}", ("", ""), "Status(1)"),
        ("thread t {\ninit c\nexpect-mask 1\n}", ("", ""), "not 0x1"),
    ] {
        let (status, said) =
            script(text, &[environment].map(|(name, value)| (if name.is_empty() { "UNUSED" } else { name }, value)));
        assert_eq!(status, Some(1), "{text}: {said}");
        assert!(said.contains(says), "{text}: no {says:?} in {said}");
    }
    let (status, said) = script("fork signal=9 {\nkill 9\n}\nfork status=4 {\n_exit 4\n}", &[]);
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn a_script_ends_the_process_as_it_says() {
    assert_eq!(script("init c\nexit 7", &[]).0, Some(7));
    assert_eq!(script("init c\nthread t {\n_exit 8\n}\nsleep 10s", &[]).0, Some(8));
    assert_eq!(script("kill 9", &[]).0, None, "ended by a signal");
    assert_eq!(script("kill 9\nstop x", &[]).0, None);
    let (status, said) = script("stop nobody", &[]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("line 1") && said.contains("nobody"), "{said}");
}

#[test]
fn a_bench_counts_what_it_calls() {
    let output =
        plugin_host().args(["bench", "--iterations", "30", "--threads", "2"]).arg(plugin("empty")).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["threads"], 2);
    let callbacks = report["by_callback"].as_array().unwrap();
    let samples = |name: &str| {
        let line = callbacks.iter().find(|line| line["callback"] == name).unwrap();
        line["samples"].as_u64().unwrap()
    };
    assert_eq!(samples("start Coll"), 30 * 2);
    assert_eq!(samples("start ProxyOp"), 30 * 4 * 2);
    assert_eq!(samples("state ProxyStep"), 30 * 4 * 4 * 3 * 2);
    assert!(report["timer_cost_ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn without_timing_a_bench_does_just_the_callbacks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo");
    let output = plugin_host()
        .args(["bench", "--no-timing", "--iterations", "3", "--table", "4"])
        .arg(plugin("echo"))
        .env("ECHO_OUT", &file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let echo = fs::read_to_string(file).unwrap();
    let calls = echo.lines().count() - 2; // init and finalize
    assert!(said(&output).contains(&format!("3 operations, {calls} callbacks")), "{}", said(&output));
    assert_eq!(echo.matches("start 0x2 ").count(), 3);
}

#[test]
fn a_bench_of_a_plugin_that_is_switched_off_says_so() {
    let output =
        plugin_host().args(["bench", "--iterations", "3"]).arg(plugin("echo")).env("ECHO_MASK", "0").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("asks for none"), "{}", said(&output));
}
