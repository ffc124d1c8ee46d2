//! Event files as records, which are mixed and written anew.

use std::fs;

use crate::records::Records;

pub(crate) fn read(input: &[u8]) {
    let scratch = tempfile::tempdir().expect("a directory");
    let (path, both) = (scratch.path().join("0.evt"), scratch.path().join("both.evt"));
    fs::write(&path, input).expect("written");
    let Ok(records) = Records::read(&path) else { return };
    let written = records.write_with(&records, &records.by_time(&records), &both).expect("written");
    assert_eq!(written, 2 * records.all.len() as u64);
    let again = Records::read(&both).expect("what we wrote");
    let said = |records: &Records| {
        let mut said: Vec<_> = records.all.iter().map(|it| (it.time, it.kind, it.region)).collect();
        said.sort_unstable();
        said
    };
    let twice: Vec<_> = said(&records).into_iter().flat_map(|it| [it; 2]).collect();
    assert_eq!(said(&again), twice);
}
