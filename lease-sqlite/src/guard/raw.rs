//! What the driver has no safe call for.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, ffi};

/// Whether the connection's main database is a file that is at its path no more, or another one is. Where SQLite cannot
/// tell (outside Unix, in memory) it is not.
#[expect(unsafe_code, reason = "the driver has no other way to ask")]
pub(super) fn has_moved(connection: &Connection) -> bool {
    let mut moved: c_int = 0;
    // SAFETY: the handle is open, for the connection is borrowed, and used by this thread alone. The operation writes one
    // `int`, and nothing keeps the pointer.
    let answer = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_HAS_MOVED,
            ptr::from_mut(&mut moved).cast(),
        )
    };
    answer == ffi::SQLITE_OK && moved != 0
}

/// Has the flag set whenever a transaction of the connection is rolled back. The driver's own hook is freed before the
/// connection is closed, from its version 0.41 on, and called by that when a transaction is open.
///
/// # Safety
///
/// The flag stays where it is until the hook is removed, if it ever is.
#[expect(unsafe_code, reason = "the driver's own may be called when it is freed")]
pub(super) unsafe fn tell_of_rollbacks(connection: &Connection, flag: &AtomicBool) {
    unsafe extern "C" fn set(flag: *mut c_void) {
        // SAFETY: it is the flag below, which is there still.
        unsafe { &*flag.cast::<AtomicBool>() }.store(true, Ordering::Release);
    }
    // SAFETY: the handle is open, for the connection is borrowed. SQLite hands the pointer to the hook and does nothing else
    // with it.
    unsafe {
        ffi::sqlite3_rollback_hook(connection.handle(), Some(set), ptr::from_ref(flag).cast_mut().cast());
    }
}

/// Removes that hook, and any other of the kind.
#[expect(unsafe_code, reason = "the driver's own removal may fail")]
pub(super) fn tell_of_rollbacks_no_more(connection: &Connection) {
    // SAFETY: the handle is open, for the connection is borrowed.
    unsafe { ffi::sqlite3_rollback_hook(connection.handle(), None, ptr::null_mut()) };
}
