//! Making files.

use std::fs;

use rustix::fs::{Mode, OFlags, open};

use super::*;

#[test]
fn a_file_is_made_whole_or_not_at_all() {
    let scratch = Scratch::new("made");
    let path = scratch.0.join("new");
    let nameless = OFlags::TMPFILE | OFlags::WRONLY;
    let can_be_nameless = open(&scratch.0, nameless, Mode::RWXU).is_ok();
    let mut seen_half_made = false;
    let mut observe = |_| {
        seen_half_made |= path.exists();
        false
    };
    assert!(!make(&path, 3 << 20, &mut observe).unwrap());
    assert!(!path.exists() && seen_half_made != can_be_nameless);
    let too_large = make(&path, 1 << 62, &mut |_| true).unwrap_err();
    assert!(
        too_large.to_string().contains("make room") && !path.exists(),
        "{too_large}"
    );
    assert!(make(&path, 512, &mut |_| true).unwrap() && is_own(&path).unwrap());
    assert!(
        make(&path, 512, &mut |_| true).is_err(),
        "what is there is not touched"
    );
    assert!(make(&scratch.0.join("odd"), 513, &mut |_| true).is_err());
    fs::write(scratch.0.join("other"), vec![0; 4096]).unwrap();
    assert!(!is_own(&scratch.0.join("other")).unwrap());
}

#[test]
fn a_file_is_made_in_the_directory_that_was_there_at_the_beginning() {
    let scratch = Scratch::new("moved");
    let (directory, moved) = (scratch.0.join("directory"), scratch.0.join("moved"));
    fs::create_dir(&directory).unwrap();
    let mut another = false;
    let made = make(&directory.join("new"), 3 << 20, &mut |_| {
        if !another {
            fs::rename(&directory, &moved).unwrap();
            fs::create_dir(&directory).unwrap();
            another = true;
        }
        true
    });
    assert!(made.unwrap() && is_own(&moved.join("new")).unwrap());
    assert!(!directory.join("new").exists());
}
