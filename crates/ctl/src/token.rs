// SPDX-License-Identifier: MIT OR Apache-2.0
//! The token that a client of a TCP port shows: a word in a file that only its owner can read.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The shortest token.
const SHORTEST: usize = 16;
/// The longest token file, in bytes.
const LONGEST: u64 = 1024;
/// Random bytes of a token that we make.
const RANDOM: usize = 24;

/// What a client has to show.
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Reads the token from its file, which is made with a fresh token if there is none.
    ///
    /// # Errors
    /// The file cannot be read, others than its owner can read it, or it holds no token.
    pub fn from_file(path: &Path) -> Result<Token, String> {
        let failed = |e: std::io::Error| format!("token file {}: {e}", path.display());
        let file = match open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return make(path).map_err(failed),
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                return Err(format!(
                    "token file {}: it is a symbolic link; name the file itself",
                    path.display()
                ));
            }
            opened => opened.map_err(failed)?,
        };
        let meta = file.metadata().map_err(failed)?;
        let bad = |why: &str| Err(format!("token file {}: {why}", path.display()));
        let user = rustix::process::geteuid().as_raw();
        if !meta.is_file() {
            return bad("it is not a file");
        }
        if meta.uid() != user && meta.uid() != 0 {
            return bad(&format!("it belongs to user {}; it must be user {user}'s", meta.uid()));
        }
        if meta.mode() & 0o077 != 0 {
            return bad("others can read or change it; chmod 600");
        }
        let mut text = String::new();
        file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
        let token = text.trim_ascii();
        if token.len() < SHORTEST
            || text.len() as u64 > LONGEST
            || token.contains(|c: char| !c.is_ascii_graphic())
        {
            return bad(&format!(
                "it should hold one word of {SHORTEST} to {LONGEST} letters, digits and signs; remove it to have one made"
            ));
        }
        Ok(Token(token.to_owned()))
    }

    /// Whether this is the token. The time it takes says nothing of where they differ.
    pub fn is(&self, shown: &str) -> bool {
        let differ = self.0.bytes().zip(shown.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
        self.0.len() == shown.len() && std::hint::black_box(differ) == 0
    }
}

const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(NOFOLLOW | NONBLOCK).open(path)
}

fn make(path: &Path) -> std::io::Result<Token> {
    let mut bytes = [0; RANDOM];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let token: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(format!("{token}\n").as_bytes())?;
    Ok(Token(token))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_token_file_is_its_owners_alone() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        let path = dir.join("token");
        let made = Token::from_file(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        let again = Token::from_file(&path).unwrap();
        assert!(made.is(text.trim()) && again.is(text.trim()) && !again.is("") && !again.is(&text));
        assert!(!again.is(&text[1..]) && !again.is(&text.trim().replace(|c: char| c.is_ascii_digit(), "x")));

        let why = |path: &Path| Token::from_file(path).unwrap_err();
        symlink(&path, dir.join("link")).unwrap();
        assert!(why(&dir.join("link")).ends_with("it is a symbolic link; name the file itself"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(why(&path).ends_with("others can read or change it; chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for text in ["short\n", "two words of some length\n", ""] {
            std::fs::write(&path, text).unwrap();
            assert!(why(&path).contains("one word of 16 to 1024"), "{text}");
        }
        assert!(why(dir).contains("it is not a file"), "{}", why(dir));
    }
}
