//! A journal in which a bit is not as it was written, and journals that end too early.

use std::fs;
use std::path::{Path, PathBuf};

use journal::reader::Journal;
use trace::{FinalizeOptions, PartState, PartSummary, finalize};

use journal::testing::{Process, Who};

const JOURNAL: &str = "journal";

/// How many changed journals are read for one of which the whole archive is made.
const READ_PER_ARCHIVE: usize = 37;

/// A small journal, cut behind what is committed, and the name of its part.
struct Recorded {
    name: String,
    process: Vec<u8>,
    segments: Vec<(PathBuf, Vec<u8>)>,
}

impl Recorded {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let who = Who { rank: 0, ranks: 2, in_environment: false };
        let mut process = Process::begin(directory.path(), who);
        process.all_reduce(0);
        let part = process.end();
        let mut segments = Vec::new();
        for entry in fs::read_dir(part.join(JOURNAL)).expect("a journal") {
            let path = entry.expect("an entry").path();
            let mut bytes = fs::read(&path).expect("readable");
            let (words, _) = bytes.as_chunks::<8>();
            let committed = u64::from_le_bytes(*words.get(8).expect("a header"));
            // With a bit of what is behind it.
            bytes.truncate(usize::try_from(committed).expect("small") + 512);
            let name = path.file_name().expect("a name");
            segments.push((PathBuf::from(name), bytes));
        }
        segments.sort();
        let name = part.file_name().expect("a name");
        Self {
            name: name.to_string_lossy().into_owned(),
            process: fs::read(part.join("process.json")).expect("readable"),
            segments,
        }
    }

    /// What becomes of the part when one of its segments is this instead. The archive must be readable.
    fn finalized(&self, changed: Option<(usize, &[u8])>) -> PartSummary {
        let out = tempfile::tempdir().expect("a directory");
        let part = out.path().join("parts").join(&self.name);
        fs::create_dir_all(part.join(JOURNAL)).expect("made");
        fs::write(part.join("process.json"), &self.process).expect("written");
        for (number, (name, bytes)) in self.segments.iter().enumerate() {
            let bytes = match changed {
                Some((which, changed)) if which == number => changed,
                _ => bytes,
            };
            fs::write(part.join(JOURNAL).join(name), bytes).expect("written");
        }
        let done = finalize(out.path(), &FinalizeOptions::default(), &());
        let done = done.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        readable(out.path());
        match done.parts.into_iter().next().map(|part| part.state) {
            Some(PartState::Written(summary)) => *summary,
            other => panic!("{other:?}"),
        }
    }
}

/// What reading alone gives: records, and problems.
fn read(journal: &Path) -> (u64, usize) {
    let journal = Journal::open(journal).expect("a journal");
    let outcome = journal.read(&mut |_| {});
    (outcome.records, outcome.problems.len())
}

fn readable(out: &Path) {
    let archive = otf2::Archive::open(&out.join("traces.otf2")).expect("an archive");
    let _definitions = archive.definitions().expect("definitions");
}

#[test]
fn any_byte_of_a_journal() {
    let recorded = Recorded::new();
    let whole = recorded.finalized(None);
    assert_eq!(whole.problems, Vec::<String>::new());
    let journal = tempfile::tempdir().expect("a directory");
    for (name, bytes) in &recorded.segments {
        fs::write(journal.path().join(name), bytes).expect("written");
    }
    let (mut tried, mut fewer) = (0, 0);
    for (number, (name, bytes)) in recorded.segments.iter().enumerate() {
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(journal.path().join(name), &changed).expect("written");
            let (mut records, mut problems) = read(journal.path());
            if tried % READ_PER_ARCHIVE == 0 {
                let summary = recorded.finalized(Some((number, &changed)));
                (records, problems) = (summary.records, summary.problems.len());
            }
            tried += 1;
            if records < whole.records {
                fewer += 1;
                assert!(
                    problems > 0,
                    "{} byte {at}: {records} records of {}, and not a word",
                    name.display(),
                    whole.records
                );
            }
        }
        fs::write(journal.path().join(name), bytes).expect("written");
    }
    println!("{tried} bytes, {fewer} of them cost records");
    assert!(tried > 3000 && fewer > 100, "{tried} bytes, {fewer} felt");
}

#[test]
fn any_end_of_a_journal() {
    let recorded = Recorded::new();
    let whole = recorded.finalized(None).records;
    for (number, (name, bytes)) in recorded.segments.iter().enumerate() {
        let committed = bytes.len() - 512;
        let mut before = 0;
        for end in (0..bytes.len()).step_by(248) {
            let summary = recorded.finalized(Some((number, &bytes[..end])));
            let name = name.display();
            assert_eq!(summary.problems.is_empty(), end >= committed, "{name} of {end} bytes: {:?}", summary.problems);
            // What comes before the end is not lost with what comes behind it.
            assert!(summary.records >= before, "{name} of {end} bytes");
            before = summary.records;
        }
        assert_eq!(before, whole, "{}", name.display());
    }
}
