//! Writes what the corpora begin with into the folders of `corpus/`: after a change of a format.

use std::fs;
use std::path::Path;

fn main() {
    for (target, name, input) in fuzz::seeds::all() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(name), input).expect("written");
    }
}
