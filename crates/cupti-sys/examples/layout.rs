//! Reads the offsets of record fields from CUPTI headers as JSON, and compares them with the committed numbers.
//!
//! ```sh
//! cargo run -p cupti-sys --example layout -- FIXTURE [--write] RELEASE=FOLDER[,FOLDER…] …
//! ```
//!
//! `cargo xtask cupti-layout` fetches the headers of published releases and runs this example. Needs libclang.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use cupti_sys::{code::Code, constants, record};
use serde::{Deserialize, Serialize};

/// Not the whole `cupti.h`: it repeats all of CUDA's functions, and so needs the CUDA headers of exactly its release.
const HEADERS: &str = "\
#include <cuda.h>
#include <cupti_result.h>
#include <cupti_version.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <cupti_activity.h>
";

type Fixture = BTreeMap<String, Headers>;

/// The layouts and constants in the headers of a release.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Headers {
    records: BTreeMap<String, Structure>,
    constants: BTreeMap<String, u32>,
}

/// The structure that the release uses for a kind of record.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Structure {
    name: String,
    size: usize,
    /// Offsets in bytes. Fields that the release does not have are absent.
    fields: BTreeMap<String, usize>,
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let write = words.iter().any(|word| word == "--write");
    words.retain(|word| word != "--write");
    let Some((fixture, releases)) = words.split_first() else {
        return Err("usage: layout FIXTURE [--write] RELEASE=FOLDER[,FOLDER...] ...".into());
    };
    let fixture = Path::new(fixture);
    let mut committed: Fixture = match std::fs::read_to_string(fixture) {
        Ok(text) => serde_json::from_str(&text).map_err(|why| format!("{}: {why}", fixture.display()))?,
        Err(_) if write => Fixture::new(),
        Err(why) => return Err(format!("{}: {why}", fixture.display()).into()),
    };
    let mut differs = false;
    for word in releases {
        let (release, folders) =
            word.split_once('=').ok_or_else(|| format!("`{word}` is not RELEASE=FOLDER[,FOLDER...]"))?;
        let found = read(&folders.split(',').collect::<Vec<_>>()).map_err(|why| format!("{release}: {why}"))?;
        let is_known = committed.get(release) == Some(&found);
        differs |= !is_known;
        let result =
            if is_known { "as committed" } else { "DIFFERS from what is committed: --write and git diff show how" };
        println!("   {release}: {result}");
        if write {
            committed.insert(release.to_owned(), found);
        }
    }
    if write {
        let text = serde_json::to_string_pretty(&committed)?;
        std::fs::write(fixture, text + "\n")?;
        println!("   wrote {}", fixture.display());
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(u8::from(differs)))
}

/// Runs clang through bindgen, which emits sizes and offsets as assertions.
fn read(folders: &[&str]) -> Result<Headers, Box<dyn Error>> {
    let stub = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stub");
    let mut arguments: Vec<String> = folders.iter().map(|folder| format!("-I{folder}")).collect();
    // Last, so that a header among the user's folders takes precedence.
    arguments.push(format!("-I{}", stub.display()));
    let structures: Vec<String> = record::LAYOUTS.iter().map(|layout| format!("{}[0-9]*", layout.c_name)).collect();
    let text = bindgen::Builder::default()
        .header_contents("cupti_layout.h", HEADERS)
        .clang_args(arguments)
        .allowlist_type(structures.join("|"))
        .allowlist_type("CUpti_ActivityKind|CUpti_ExternalCorrelationKind|CUpti_ActivityAttribute|CUpti_ActivityFlag")
        .allowlist_type("CUptiResult|CUpti_SubscriberParams|CUpti_(driver|runtime)_api_trace_cbid_enum")
        .allowlist_var("CUPTI_API_VERSION")
        .prepend_enum_name(false)
        .layout_tests(true)
        .formatter(bindgen::Formatter::None)
        .generate()?
        .to_string();
    understand(&text)
}

fn understand(text: &str) -> Result<Headers, Box<dyn Error>> {
    let sizes = assertions(text, "\"Size of ");
    let offsets = assertions(text, "\"Offset of field: ");
    let fields = |structure: &str, is_wanted: &dyn Fn(&str) -> bool| -> BTreeMap<String, usize> {
        let of = |(name, offset): (&String, &usize)| {
            Some((name.strip_prefix(structure)?.strip_prefix("::")?.to_owned(), *offset))
        };
        offsets.iter().filter_map(of).filter(|(field, _)| is_wanted(field)).collect()
    };
    let mut records = BTreeMap::new();
    for layout in record::LAYOUTS {
        let number = |name: &str| -> Option<u32> {
            let digits = name.strip_prefix(layout.c_name)?;
            if digits.is_empty() { Some(0) } else { digits.parse().ok() }
        };
        // CUPTI fills the highest version of its release.
        let (name, size) = sizes
            .iter()
            .filter(|(name, _)| number(name).is_some())
            .max_by_key(|(name, _)| number(name))
            .ok_or_else(|| format!("the headers have no {}", layout.c_name))?;
        let fields = fields(name, &|field| layout.fields.iter().any(|(known, ..)| *known == field));
        records.insert(layout.record.to_owned(), Structure { name: name.clone(), size: *size, fields });
    }
    let name = "CUpti_SubscriberParams";
    if let Some(size) = sizes.get(name) {
        let structure = Structure { name: name.to_owned(), size: *size, fields: fields(name, &|_| true) };
        records.insert("subscriber_params".to_owned(), structure);
    }
    let names = constants::ALL.iter().map(|(name, _)| *name).chain(Code::ALL.iter().map(|(name, _)| *name));
    let wanted = names.chain(["CUPTI_API_VERSION"]);
    let constants = wanted.filter_map(|name| Some((name.to_owned(), constant(text, name)?))).collect();
    Ok(Headers { records, constants })
}

/// The names and numbers of assertions: X and 40 for `["Size of X"] [… - 40usize]`.
fn assertions(text: &str, beginning: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for part in text.split(beginning).skip(1) {
        let Some((name, rest)) = part.split_once('"') else {
            continue;
        };
        let number =
            rest.split_once("usize").and_then(|(before, _)| before.rsplit(|c: char| !c.is_ascii_digit()).next());
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            found.insert(name.to_owned(), number);
        }
    }
    found
}

/// The value of a constant: 39 for `pub const NAME : TYPE = 39 ;`.
fn constant(text: &str, name: &str) -> Option<u32> {
    let (_, rest) =
        text.split_once(&format!("pub const {name} :")).or_else(|| text.split_once(&format!("pub const {name}:")))?;
    let (_, value) = rest.split_once(';')?.0.split_once('=')?;
    value.trim().parse().ok()
}
