import org.apache.kafka.common.utils.Utils;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.stream.Stream;

/** Rounds over copies of a log, which are removed: what a JVM needs before it is timed. */
final class WarmUps {
    private WarmUps() { }

    interface DirTask {
        void run(File dir) throws Exception;
    }

    static void onCopy(File dir, DirTask task) throws Exception {
        Path scratch = Files.createTempDirectory(dir.getParentFile().toPath().getParent(), "warm-up-");
        try {
            Path copy = scratch.resolve(dir.getName());
            copyFiles(dir.toPath(), copy);
            copyCleanerCheckpoint(dir.getParentFile().toPath(), scratch);
            task.run(copy.toFile());
        } finally {
            Utils.delete(scratch.toFile());
        }
    }

    private static void copyFiles(Path from, Path to) throws IOException {
        Files.createDirectories(to);
        try (Stream<Path> files = Files.list(from)) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(file.getFileName()), StandardCopyOption.COPY_ATTRIBUTES);
            }
        }
    }

    private static void copyCleanerCheckpoint(Path from, Path to) throws IOException {
        String name = "cleaner-offset-checkpoint";
        if (Files.exists(from.resolve(name))) {
            Files.copy(from.resolve(name), to.resolve(name));
        }
    }
}
