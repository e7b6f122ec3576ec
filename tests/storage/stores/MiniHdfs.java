import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** An HDFS of one name node and one data node on the loopback; takes pairs of a directory here and its path there. */
public class MiniHdfs {
    public static void main(String[] pairs) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, Files.createTempDirectory("hdfs").toString());
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(configuration).numDataNodes(1).build()) {
            cluster.waitActive();
            FileSystem files = cluster.getFileSystem();
            for (int at = 0; at + 1 < pairs.length; at += 2) {
                files.copyFromLocalFile(false, true, new Path("file://" + pairs[at]), new Path(pairs[at + 1]));
            }
            System.out.println("hdfs://127.0.0.1:" + cluster.getNameNodePort());
            System.in.read();
        }
    }
}
