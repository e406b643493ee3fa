//! Where a file may not be, for two holders could stand on it.
//!
//! Network file systems: their locks and shared memory do not reach other machines reliably
//! (<https://www.sqlite.org/howtocorrupt.html>, section 2). A file mounted by itself: it has another
//! name elsewhere, and SQLite keeps its journal and log beside the name.

use std::path::Path;

use lease_core::store::StoreError;

#[cfg(not(target_os = "linux"))]
pub(crate) fn refuse_network(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Refuses a file on a network file system. What it cannot tell it lets pass: a missing file's
/// folder is asked, a missing folder is for others to report.
#[cfg(target_os = "linux")]
pub(crate) fn refuse_network(path: &Path) -> Result<(), StoreError> {
    let place = if path.exists() { path } else { path.parent().unwrap_or(path) };
    let Ok(found) = rustix::fs::statfs(place) else { return Ok(()) };
    // The kernel's type is a word of varying width and sign; the numbers fit 32 bits.
    refuse_kind(u32::try_from(i128::from(found.f_type) & 0xffff_ffff).unwrap_or(0))
}

/// Refuses a file system whose number, as the kernel has it, is that of one on a network.
#[cfg(target_os = "linux")]
fn refuse_kind(magic: u32) -> Result<(), StoreError> {
    let Some(name) = network_name(magic) else { return Ok(()) };
    let message = format!("it is on a network file system ({name}), whose locks cannot be trusted");
    Err(StoreError::new(lease_core::ErrorKind::Unsupported, message).with_advice("use a local disk"))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn refuse_mounted(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Refuses a file that is a mount of its own, as containers are given single files.
#[cfg(target_os = "linux")]
pub(crate) fn refuse_mounted(path: &Path) -> Result<(), StoreError> {
    if !is_mount(path) {
        return Ok(());
    }
    let message = "the file is mounted by itself, and SQLite keeps its journal in the folder beside it";
    let error = StoreError::new(lease_core::ErrorKind::Unsupported, message);
    Err(error.with_advice("mount the folder, not the file"))
}

/// `false` too where the kernel (before 5.8) does not tell.
#[cfg(target_os = "linux")]
fn is_mount(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

    statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// By the numbers of `statfs(2)`. FUSE (sshfs as much as a local disk), 9p and overlays are not told apart.
#[cfg(target_os = "linux")]
fn network_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x564c => "NCP",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 | 0x0bd0_0bd3 => "Lustre",
        0x4750_4653 => "GPFS",
        0x7461_636f => "OCFS2",
        0x0116_1970 => "GFS2",
        0x1983_0326 => "BeeGFS",
        0xaad7_aaea => "PanFS",
        0x2003_0528 => "OrangeFS",
        0x786f_4256 => "a shared folder of VirtualBox",
        0xbacb_acbc => "a shared folder of VMware",
        _ => return None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_network_file_system_is_refused_by_its_name() {
        // The page of errors has these words.
        let words = "it is on a network file system (NFS), whose locks cannot be trusted; use a local disk";
        assert_eq!(refuse_kind(0x6969).unwrap_err().to_string(), words);
    }

    #[test]
    fn network_file_systems_are_known_by_their_numbers_and_local_ones_let_pass() {
        for (magic, name) in [
            (0x6969, "NFS"),
            (0xff53_4d42, "CIFS"),
            (0xfe53_4d42, "SMB2"),
            (0x0bd0_0bd0, "Lustre"),
            (0x7461_636f, "OCFS2"),
        ] {
            assert_eq!(network_name(magic), Some(name));
        }
        // ext, xfs, btrfs, zfs, tmpfs, overlay, FUSE, 9p.
        for local in [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x2fc1_2fc1,
            0x0102_1994,
            0x794c_7630,
            0x6573_5546,
            0x0102_1997,
        ] {
            assert_eq!(network_name(local), None, "{local:x}");
        }
    }

    #[test]
    fn what_is_mounted_by_itself_is_known_where_the_kernel_tells() {
        use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

        let found = statx(CWD, "/proc", AtFlags::empty(), StatxFlags::empty());
        let tells = found.is_ok_and(|found| found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT));
        assert_eq!(refuse_mounted(Path::new("/proc")).is_err(), tells);
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(refuse_mounted(file.path()).is_ok());
    }

    #[test]
    fn a_file_that_does_not_exist_is_judged_by_its_folder() {
        assert!(refuse_network(Path::new("/proc/self/no such file")).is_ok());
        assert!(refuse_network(Path::new("/no such folder/file")).is_ok());
    }
}
