// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of the operating system in words, and what a program inherits from it.

use std::io::Error;
use std::os::fd::RawFd;

/// What went wrong, without the number that the standard library adds: "No such file or directory".
pub fn reason(error: &Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.find(" (os error").unwrap_or(text.len()));
    text
}

/// Closes what this process has inherited: each descriptor but the standard ones that would stay open in another program. What the
/// standard library and this project open does not, so nobody's descriptor is closed. For the very beginning of a process.
pub fn close_inherited() {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    for fd in numbers.filter(|fd| *fd > 2).collect::<Vec<_>>() {
        // SAFETY: the call asks about a number; it fails if there is no such descriptor.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            // SAFETY: no value of this process owns a descriptor that other programs inherit, see above.
            unsafe { libc::close(fd) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_goes() {
        assert_eq!(reason(&Error::from_raw_os_error(libc::ENOENT)), "No such file or directory");
        assert_eq!(reason(&Error::other("own words")), "own words");
    }
}
