//! What verbs print with `--json` is what `--json-schema` promises, by an independent validator.

use std::process::Command;

use whole_plugin::machine::{python_with, two_process_streams};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

const VALIDATE: &str = "
import json, sys
from jsonschema import Draft202012Validator as Validator
schema, document = (json.load(open(path)) for path in sys.argv[1:])
Validator.check_schema(schema)
Validator(schema).validate(document)
root = schema.get('anyOf', [schema])
names = set().union(*(one.get('properties', {}) for one in root), schema.get('properties', {}))
for one in schema.get('$defs', {}).values():
    names |= set(one.get('properties', {}))
unknown = set(document) - names if isinstance(document, dict) else set()
assert not unknown, unknown
";

#[test]
fn documents_fit_their_schemas() {
    let Some(python) = python_with("jsonschema") else { return };
    let scratch = Scratch::new();
    let _replayed = run(scratch.replay(&two_process_streams()).env("NCCL_OTF2_KEEP_JOURNAL", "1")).with_code(0);
    // `diff` refuses an archive and itself.
    let _copied = run(Command::new("cp").arg("-a").arg(scratch.out()).arg(scratch.path().join("same"))).with_code(0);
    for words in [
        "finalize out",
        "info out",
        "stats out",
        "diff out same",
        "report out -o page.html",
        "report out --diff same -o two.html",
        "check out",
        "hang out",
        "doctor",
        "top out",
        "export out --format perfetto -o t.pftrace",
        "export out --format scalasca -o scalasca",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (document, schema) = (scratch.path().join("document"), scratch.path().join("schema"));
        let told = run(scratch.tool(&words).arg("--json"));
        std::fs::write(&document, &told.stdout).expect("a file");
        std::fs::write(&schema, run(&mut scratch.tool(&[words[0], "--json-schema"])).with_code(0).stdout)
            .expect("a file");
        let mut validator = Command::new(&python);
        validator.args(["-c", VALIDATE]).args([&schema, &document]);
        let validated = run(&mut validator);
        assert_eq!(validated.status.code(), Some(0), "{words:?}: {told}{validated}");
    }
}
